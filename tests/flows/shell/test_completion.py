"""What may follow is offered; a half-written word is no mistake."""

from __future__ import annotations

from pathlib import Path

import typer
from typer.testing import CliRunner

from prefect_tpu.flows.shell import completion


def test_accelerators() -> None:
    assert {"v6e-1", "v6e-16", "v6e-128"} <= set(completion.accelerators("v6e-1"))
    assert "v6e-16:spot" in completion.accelerators("v6e-16")
    assert completion.accelerators("nothing") == []


def test_drills_offer_kinds_then_moments() -> None:
    assert completion.drills("pre") == ["preempt@"]
    assert "orchestrator-kill@" in completion.drills("")
    assert completion.drills("oom@st") == ["oom@step=", "oom@start"]


def test_states() -> None:
    assert completion.states("st") == ["starting", "stopping", "stopped"]


def test_jobs_are_those_of_the_output_on_the_line(tmp_path: Path) -> None:
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits/job.json").touch()
    offered: list[list[str]] = []
    app = typer.Typer()

    @app.command()
    def ask(ctx: typer.Context, output: str) -> None:
        offered.append(completion.job_names(ctx, "di"))

    for output in (str(tmp_path), str(tmp_path / "none"), "gs://bucket"):
        CliRunner().invoke(app, [output], catch_exceptions=False)
    assert offered == [["digits"], [], []]
