"""The outer door: help is fast, errors are one line or one object, words are completed without heavy imports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from prefect_tpu.flows.cli import app, in_full
from prefect_tpu.flows.shell import automations, pool
from prefect_tpu.infra.errors import PlatformError, UsageError

COMMANDS = [
    *(str(command.name) for command in app.registered_commands),
    *(f"pool {command.name}" for command in pool.app.registered_commands),
    *(f"automations {command.name}" for command in automations.app.registered_commands),
]
HEAVY = ("prefect", "jax", "anyio", "psutil", "httpx", "numpy")  # typer itself loads pydantic


def test_help_loads_nothing_heavy() -> None:
    """In one process: whatever a command's help loads stays loaded."""
    code = (
        "import sys\nfrom prefect_tpu.flows.cli import main\n"
        "for name in [None, *sys.argv[1:]]:\n"
        "    try:\n        main([*name.split(), '--help'] if name else ['--help'])\n"
        "    except SystemExit as left:\n        assert not left.code, name\n"
        f"sys.exit(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", code, *COMMANDS], capture_output=True, text=True)
    assert ended.stderr.strip() == ""
    assert ended.stdout.count("Usage:") == len(COMMANDS) + 1


def test_the_version_is_an_option_too() -> None:
    asked, commanded = (CliRunner().invoke(app, [word]) for word in ("--version", "version"))
    assert asked.output == commanded.output != "" and asked.exit_code == 0


def test_what_was_noted_of_a_platform_that_refused_is_said_too() -> None:
    for error, said in ((PlatformError("No answer."), "No answer. Tried 3 times in 60 s."), (UsageError("No."), "No.")):
        error.add_note("Tried 3 times in 60 s.")
        assert in_full(error) == said


def test_run_and_render_take_the_same_words() -> None:
    def options(command: str) -> set[str]:
        shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
        return {word for word in shown.split() if word.startswith("--")}

    assert options("render") <= options("run")
    assert {"--max-preemptions", "--stall-timeout", "--spot", "--env", "--drill"} <= options("render")


def test_every_command_but_help_speaks_json_and_the_exit_statuses_are_told() -> None:
    for name in COMMANDS:
        shown = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "200"}).output
        assert "--json" in shown, name
    assert "124" in CliRunner().invoke(app, ["--help"]).output


def complete(words: str, output: Path) -> list[str]:
    environment = {
        **os.environ,
        "_PREFECT_TPU_COMPLETE": "complete_bash",
        "COMP_WORDS": f"prefect-tpu {words}",
        "COMP_CWORD": str(len(words.split(" "))),
        "PREFECT_TPU_OUTPUT": str(output),
        "PYTHONPROFILEIMPORTTIME": "1",
    }
    command = Path(sys.executable).with_name("prefect-tpu")
    ended = subprocess.run([command], env=environment, capture_output=True, text=True)
    loaded = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert loaded & {"prefect", "jax", "anyio"} == set()
    return ended.stdout.split()


def test_words_are_completed(tmp_path: Path) -> None:
    for name in ("digits", "diamonds", "mnist"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "job.json").touch()
    assert complete("status di", tmp_path) == ["diamonds", "digits"]
    assert complete("run x.py --drill hang@s", tmp_path) == ["hang@step=", "hang@save=", "hang@start"]


def test_no_colour_where_nobody_wants_it(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("prefect-tpu")), "list", "--output", str(tmp_path)]
    for environment in ({}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}):  # the latter as a terminal
        ended = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
        assert "\x1b[3" not in ended.stdout + ended.stderr


def test_a_reader_that_is_gone_is_no_traceback(tmp_path: Path) -> None:
    shell = f"{Path(sys.executable).with_name('prefect-tpu')} accelerators | head -1"
    ended = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert "Traceback" not in ended.stderr and len(ended.stdout.splitlines()) == 1


def test_what_is_not_known_is_said_as_json_too(prefect_tpu: Callable[..., Any]) -> None:
    ended = prefect_tpu("status", "--bogus", "--json")
    assert (ended.status, ended.json["kind"], ended.err) == (2, "UsageError", "")
