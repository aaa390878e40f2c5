"""Steps of a `prefect.yaml`: accelerators that there are, and an image, named by its content and pushed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from prefect_tpu.flows.deployment_steps import build_image, check_accelerators
from prefect_tpu.infra.errors import PlatformError, UsageError

ID = "sha256:0123456789abcdef0123456789abcdef"
# Speaks as the real ones do: `build` writes the image's id, and all that it was asked is noted.
BUILDER = f"""\
#!{sys.executable}
import json, os, sys
with open(os.environ["NOTE"], "a") as note:
    note.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == os.environ.get("FAILS"):
    sys.exit(7)
if sys.argv[1] == "build":
    open(sys.argv[sys.argv.index("--iidfile") + 1], "w").write("{ID}")
"""


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where it is called, with a Dockerfile; `asked` there has what it was asked."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "podman"
    program.write_text(BUILDER)
    program.chmod(0o755)
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("NOTE", str(tmp_path / "asked"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(folder: Path) -> list[list[str]]:
    return [json.loads(line) for line in (folder / "asked").read_text().splitlines()]


def test_accelerators_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_accelerators(["v5litepod-16", "l4"], slices=2) == {"accelerators": ["v5e-16", "l4"]}
    assert capsys.readouterr().out.splitlines() == ["v5e-16: 32 chips on 8 hosts", "l4: 2 chips on 2 hosts"]


def test_one_that_there_is_not_ends_the_deployment() -> None:
    with pytest.raises(UsageError, match="v6e-17"):
        check_accelerators(["v6e-16", "v6e-17"])


def test_an_image_is_named_by_what_is_in_it(builder: Path) -> None:
    assert build_image("registry.example/team/flow") == {"image": "registry.example/team/flow:0123456789ab"}
    build, tag = asked(builder)
    assert build[:3] == ["build", "--file", "Dockerfile"] and build[-1] == "."
    assert tag == ["tag", ID, "registry.example/team/flow:0123456789ab"]


def test_one_of_several_stages_is_built(builder: Path) -> None:
    build_image("team/flow", target="launcher")
    build = asked(builder)[0]
    assert build[build.index("--target") + 1] == "launcher" and build[-1] == "."


def test_it_is_pushed_where_that_is_asked_for(builder: Path) -> None:
    made = build_image("localhost:5000/team/flow", tag="v1", push=True, builder="podman")
    assert made == {"image": "localhost:5000/team/flow:v1"}
    assert asked(builder)[-1] == ["push", "localhost:5000/team/flow:v1"]


@pytest.mark.parametrize("word", ["build", "push"])
def test_a_builder_that_fails_ends_the_deployment(builder: Path, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILS", word)
    with pytest.raises(PlatformError, match=f"`podman {word} .*` ended with code 7"):
        build_image("team/flow", push=True)
    assert asked(builder)[-1][0] == word


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"image": "Team/Flow"}, "is no name of one"),
        ({"image": "--help"}, "is no name of one"),
        ({"image": "localhost:5000/team/flow:v1"}, "without a tag"),
        ({"image": "team/flow", "dockerfile": "Other"}, "Other is not there"),
        ({"image": "team/flow", "context": "other"}, "other is not there"),
        ({"image": "team/flow", "builder": "docker"}, "docker is not installed"),
    ],
)
def test_what_cannot_be_built_is_told_before(builder: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        build_image(**options)  # type: ignore[arg-type]
    assert not os.path.exists(builder / "asked")
