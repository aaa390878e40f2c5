"""What may be loaded when: a host and the shell command must not pay for what they do not use."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {
    "jax",
    "jaxlib",
    "numpy",
    "orbax",
    "keras",
    "prefect",
    "pydantic",
    "kubernetes",
    "google",
    "matplotlib",
    "anyio",
    "aiohttp",
    "torch",
    "transformers",
}


def modules_after(statement: str) -> set[str]:
    """The top-level names in `sys.modules` once a fresh interpreter has run the statement."""
    code = f"import json, sys\n{statement}\nprint(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout.splitlines()[-1]))


def heavy(modules: set[str]) -> set[str]:
    return HEAVY & {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize(
    "module",
    [
        "prefect_tpu",
        "prefect_tpu.infra.host.runner",
        "prefect_tpu.infra.accelerators",
        "prefect_tpu.infra.gcp.kubernetes",
        "prefect_tpu.infra.training.join",
        "prefect_tpu.infra.training.checkpoints",
        "prefect_tpu.infra.training.keras_checkpoints",
        "prefect_tpu.infra.training.fsdp",
        "prefect_tpu.infra.training.report",
        "prefect_tpu.infra.training.torch_join",
        "prefect_tpu.infra.training.torch_checkpoints",
        "prefect_tpu.infra.training.transformers_trainer",
        "prefect_tpu.infra.training.shard",
        "prefect_tpu.infra.training.batches",
        "prefect_tpu.infra.training.global_array",
    ],
)
def test_import_is_light(module: str) -> None:
    assert heavy(modules_after(f"import {module}")) == set()


def test_face_imports_nothing_of_ours() -> None:
    loaded = modules_after("import prefect_tpu")
    assert [name for name in loaded if name.startswith("prefect_tpu.")] == []


def test_shell_help_does_not_load_jax() -> None:
    statement = (
        "import contextlib, io\n"
        "from prefect_tpu.flows.cli import main\n"
        "sys.argv = ['prefect-tpu', '--help']\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()"
    )
    assert heavy(modules_after(statement)) & {"jax", "orbax", "prefect", "kubernetes", "google"} == set()
