"""What is wrong with a job is told before its step is compiled, and before a compiler is looked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.compiled_ahead import compile_ahead
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.request import Request
from prefect_tpu.infra.staging import stage

PROGRAM = """
def main(steps: int = 3): raise AssertionError("nobody runs this")
def lower(mesh): raise AssertionError("nobody runs this")
"""
NO_COMPILER = "names /nowhere/bin/python"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "model.py").write_text(PROGRAM)
    (tmp_path / "rows.csv").write_text("1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(Env.COMPILER_PYTHON, "/nowhere/bin/python")
    return "model.py:main"


def ask(program: str, compile_: str = "yes", **asked: Any) -> None:
    request = {"name": "job", "accelerators": ("v6e-1",), "output": "jobs", **asked}
    compile_ahead(Request(program=program, compile=compile_, **request), lambda line: None)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"data": {"rows": "gs://bucket/rows"}}, "Pass its URL to the program as a parameter"),
        ({"data": {"rows": "none.csv"}}, "is not there"),
        ({"name": "No Name"}, "No Name"),
        ({"accelerators": ("v6e-1", "v6e-17")}, "v6e-17"),
        ({"settings": {"drills": ("preempt@step=1,host=9",)}}, "strikes no host"),
        ({}, NO_COMPILER),
        ({"data": {"rows": "rows.csv"}}, NO_COMPILER),
    ],
)
def test_what_is_wrong_with_the_job_comes_first(program: str, asked: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        ask(program, **asked)
    assert not Path("jobs").exists()


def test_data_that_is_named_by_its_hash_cannot_be_read_here(program: str) -> None:
    rows = f"sha256:{stage('rows.csv', 'jobs').sha256}"
    with pytest.raises(UsageError, match=r"Data 'rows' of job 'job' is named by its hash.* lower\(mesh"):
        ask(program, data={"rows": rows})
    with pytest.raises(UsageError, match=NO_COMPILER):  # which needs none
        ask(program, "model.py:lower", data={"rows": rows})
