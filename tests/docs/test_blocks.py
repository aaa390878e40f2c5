"""Blocks of pages are what the tests of this folder take them for, and few of them are never tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_blocks import EXECUTED, READ, WORDS, Block, blocks, commands, is_shown
from reader import PAGES, ROOT, page_id

# (page, first line of the block): what cannot run in a test. Whoever adds a line says why in the page.
SKIPPED = {
    (
        "README.md",
        "make demo       # trains on real data, on a local v6e-16; one preemption, one lost host, one result",
    ),
    (
        "README.md",
        "prefect-tpu run fit.py:main -a v6e-16 --cluster my-cluster --image my-image --output gs://my-bucket/jobs",
    ),
    ("docs/tutorial.md", "make setup"),
    # Google is not to be had; tests/deployments tries the same files with Terraform itself.
    ("docs/how-to/cluster.md", "cat > deployments/gke/terraform/mine.auto.tfvars <<'END'"),
    (
        "docs/how-to/deployments.md",
        "prefect deployment run train/tpu -jv service_account=prefect-tpu-driver -jv image=my-launcher:1 \\",
    ),
    ("docs/how-to/gke.md", "# 1. A cluster with Workload Identity, and a bucket where its TPUs are."),
    ("docs/how-to/my-own-script.md", "import torch"),
    (
        "docs/how-to/compile.md",
        "$ prefect-tpu compile docs/examples/seven_billion/lower.py:lower -a v5p-128 --mesh fsdp=-1",
    ),
    ("docs/how-to/profiling.md", "xprof --logdir ~/.local/share/prefect-tpu/steps/profile"),
    # tests/cluster/work_pool applies the same file.
    (
        "docs/how-to/work-pool.md",
        "prefect-tpu pool create tpu --backend jobset --namespace ml --output gs://my-bucket/jobs --image my-image \\",
    ),
}
BLOCKS = [(page, block) for page in PAGES for block in blocks(page)]


def block_id(value: object) -> str:
    return page_id(value) if isinstance(value, Path) else str(value.line) if isinstance(value, Block) else ""


@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=block_id)
def test_every_block_says_how_it_is_tried(page: Path, block: Block) -> None:
    assert block.language in EXECUTED | READ, f"a {block.language} block is neither executed nor known as text"
    assert block.words.keys() <= WORDS
    assert block.words.get("given", "server") == "server"
    assert block.words.get("run", "server") in ("server", "cluster", "google", "frameworks", "compiler")
    assert block.language != "console" or all(command.text for command in commands(block.text))
    assert "raises" not in block.words or block.language == "python"


OF_FILES = [(page, block) for page, block in BLOCKS if "file" in block.words]


@pytest.mark.parametrize(("page", "block"), OF_FILES, ids=block_id)
def test_the_text_before_a_block_says_which_file_it_is(page: Path, block: Block) -> None:
    said = [line for line in page.read_text().splitlines()[: block.line - 1] if not line.startswith("<!--")]
    paragraph = "\n".join(said).rstrip().rpartition("\n\n")[2]
    assert f"`{block.words['file']}`" in paragraph and paragraph.endswith(":"), paragraph


def test_skipped_blocks_are_these() -> None:
    found = {(page_id(page), block.text.splitlines()[0]) for page, block in BLOCKS if "skip" in block.words}
    assert found == SKIPPED


def test_most_blocks_are_executed() -> None:
    code = [block for _, block in BLOCKS if block.language in EXECUTED]
    assert len(SKIPPED) < len(code) / 10
    assert (ROOT / "README.md") in {page for page, block in BLOCKS if block.is_executed}


def test_words_are_read_from_the_lines_above_a_fence(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- status: 1 -->\n<!-- run: server -->\n```sh\nfalse\n```\n\n1. In a list:\n\n   ```text\n   a\n   ```\n"
    )
    first, second = blocks(page)
    assert (first.line, first.text, first.words) == (3, "false\n", {"status": "1", "run": "server"})
    assert first.needs_server and (second.text, second.words) == ("a\n", {})


def test_a_fence_that_is_not_closed_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\nfalse\n")
    with pytest.raises(ValueError):
        blocks(page)


def test_commands_of_a_console_block() -> None:
    first, second = commands("$ echo a \\\n    b\na b\n$ true\n")
    assert (first.text, first.output) == ("echo a \\\n    b", "a b\n")
    assert (second.text, second.output) == ("true", "")


@pytest.mark.parametrize(
    ("expected", "printed", "shown"),
    [
        ("a b\n", "a b\n", True),
        ("a b\n", "a    b  \n\n", True),
        ("a b\n", "a c\n", False),
        ("a … c\n", "a 12.5 s c\n", True),
        ("a … c\n", "a\nc\n", False),
        ("a\n…\nz\n", "a\nb\nc\nz\n", True),
        ("a\n…\nz\n", "a\nz\n", True),
        ("a\n…\n", "b\na\n", False),
        ("a\n", "a\nb\n", False),
        ("a\n", "a\n10:00:00 | WARNING | EventsWorker - Still processing items: 1 items remaining...\n", True),
    ],
)
def test_output_is_compared_but_for_what_varies(expected: str, printed: str, shown: bool) -> None:
    assert is_shown(expected, printed) is shown
