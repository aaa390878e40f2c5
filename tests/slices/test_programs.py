"""Every kind of program through the shell command, what its hosts see, and what a script gets back.

The hosts are real and run no JAX. All runs are started at once: jobs side by side never meet.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.job import JobResult, SliceJob
from prefect_tpu.infra.launcher import values
from prefect_tpu.infra.launcher.driving import drive_to_end, driving
from prefect_tpu.infra.packing import pack_function
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.slices, pytest.mark.timeout(120)]

PROGRAMS = Path(__file__).parents[1] / "programs"
PLAIN, STRANGER = f"{PROGRAMS}/plain.py", f"{PROGRAMS}/stranger.py"
RESULT_KEYS = {"job", "state", "attempts", "output", "value", "failure"}
ATTEMPT_KEYS = {"number", "accelerator", "started", "ended", "outcome", "failure"}
FAILURE_KEYS = {"kind", "host", "retryable", "message", "advice", "evidence"}

RIGHT: dict[str, list[str]] = {
    "function-of-file": [f"{PLAIN}:describe", "-p", "name=Ada", "-p", "times=3", "-p", 'options={"deep": [1, null]}'],
    "function-of-module": ["own_package.train:main", "-p", "word=hello"],
    "script": [STRANGER, "--", "--flag", "two words", "SEEN"],
    "command": ["sh", "--", "-c", 'echo "$0 $RANK of $WORLD_SIZE"', "rank"],
    "staged": [f"{PLAIN}:read", "--data", "table=table.csv", "--data", "pictures=pictures"],
    "raises": [f"{PLAIN}:fail", "-p", "host=1", "-p", "text=a\nlong\nstory"],
    "exits": ["sh", "--", "-c", "exit 7"],
}
WRONG: dict[str, list[str]] = {
    "accelerator": [f"{PLAIN}:read", "-a", "v6e-17"],
    "file": ["missing.py:main"],
    "function": [f"{PLAIN}:missing"],
    "module": ["no_such_package.train:main"],
    "script": ["missing.py"],
    "command": ["no-such-command"],
    "parameter": [f"{PLAIN}:describe", "-p", "name"],
    "parameters-of-a-script": [STRANGER, "-p", "name=Ada"],
    "arguments-of-a-function": [f"{PLAIN}:read", "--", "one"],
    "drill": [f"{PLAIN}:read", "--drill", "explode@step=1"],
    "name": [f"{PLAIN}:read", "--name", "Not_A_Name"],
    "data": [f"{PLAIN}:read", "--data", "table=missing.csv"],
    "checkpoint-every": [f"{PLAIN}:read", "--checkpoint-every", "0"],
    "output": [f"{PLAIN}:read", "--output", "s3://bucket/jobs"],
}


@pytest.fixture(scope="module")
def runs(new_machine: Callable[[], Any]) -> Iterator[dict[str, Any]]:
    """Every call of the two tables, ended."""
    with new_machine() as machine:
        _lay_out(machine.folder)
        environment = {"PREFECT_TPU_LOCAL_SLICES": "8", "PREFECT_API_KEY": "secret"}
        seen = machine.folder / "seen"
        started = {}
        for name, words in RIGHT.items():
            words = [str(seen) if word == "SEEN" else word for word in words]
            options = ["--name", name, "--json", "-a", "cpu-2x1"]
            started[name] = machine.prefect_tpu("run", *options, *words, **environment)
        for name, words in WRONG.items():
            started[f"wrong-{name}"] = machine.prefect_tpu("run", *words)
        for process in started.values():
            process.wait()
        assert machine.left() == []
        yield {**started, "seen": seen, "output": machine.output}


def _lay_out(folder: Path) -> None:
    """What the calls name, in the folder they are made from."""
    (folder / "seen").mkdir()
    (folder / "pictures" / "deep").mkdir(parents=True)
    (folder / "pictures" / "deep" / "one.txt").write_text("one")
    (folder / "pictures" / "two.txt").write_text("two")
    (folder / "table.csv").write_text("1,2\n")
    (folder / "own_package").mkdir()
    (folder / "own_package" / "__init__.py").write_text("")
    (folder / "own_package" / "words.py").write_text("GREETING = 'well'\n")
    train = "from own_package.words import GREETING\n\ndef main(word):\n    return [GREETING, word]\n"
    (folder / "own_package" / "train.py").write_text(train)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (
            "function-of-file",
            {"host": 0, "name": "Ada", "times": 3, "options": {"deep": [1, None]}, "sibling": "came along"},
        ),
        ("function-of-module", ["well", "hello"]),
        ("script", None),
        ("command", None),
        ("staged", {"table": "1,2\n", "pictures": {"deep/one.txt": "one", "two.txt": "two"}}),
    ],
)
def test_a_run_gives_back_the_leader_s_value_as_its_last_line(runs: dict[str, Any], name: str, value: Any) -> None:
    result = runs[name].result()
    assert runs[name].wait() == 0, runs[name].err
    assert set(result) == RESULT_KEYS
    assert (result["job"], result["state"], result["value"], result["failure"]) == (name, "succeeded", value, None)
    assert result["output"] == str(runs["output"] / name)
    (attempt,) = result["attempts"]
    assert set(attempt) >= ATTEMPT_KEYS
    assert (attempt["number"], attempt["accelerator"], attempt["outcome"]) == (1, "cpu-2x1", "succeeded")
    assert 0 < attempt["ended"] - attempt["started"] < 60


@pytest.mark.parametrize(
    ("name", "host", "message"), [("raises", 1, "ValueError: a\nlong\nstory"), ("exits", None, "exit code 7")]
)
def test_a_failed_run_says_why_and_ends_with_1(runs: dict[str, Any], name: str, host: int | None, message: str) -> None:
    result = runs[name].result()
    assert runs[name].wait() == 1
    assert set(result) == RESULT_KEYS and set(result["failure"]) == FAILURE_KEYS
    assert (result["state"], result["value"], result["failure"]["kind"]) == ("failed", None, "program_error")
    assert host is None or result["failure"]["host"] == host
    assert message in result["failure"]["message"] and not result["failure"]["retryable"]
    (attempt,) = result["attempts"]
    assert attempt["failure"] == result["failure"] and attempt["outcome"] == "program_error"


def test_a_program_that_knows_nothing_of_us_finds_its_place_in_its_environment(runs: dict[str, Any]) -> None:
    found = [json.loads((runs["seen"] / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
    for rank, host in enumerate(found):
        assert host["arguments"] == ["--flag", "two words", str(runs["seen"])]
        environment = host["environment"]
        expected = {
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": "127.0.0.1",
            "TPU_WORKER_ID": str(rank),
            "TPU_WORKER_HOSTNAMES": "127.0.0.1,127.0.0.1",
            "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{environment['MASTER_PORT']}",
            "JAX_NUM_PROCESSES": "2",
            "JAX_PROCESS_ID": str(rank),
            "JAX_PLATFORMS": "cpu",
            "JAX_NUM_CPU_DEVICES": "1",
        }
        assert {name: environment.get(name) for name in expected} == expected
        assert "PREFECT_API_KEY" not in environment
    assert found[0]["environment"]["MASTER_PORT"] == found[1]["environment"]["MASTER_PORT"]


def test_what_a_command_prints_is_its_host_s_log(runs: dict[str, Any]) -> None:
    logs = [runs["output"] / "command" / "attempts/1/hosts" / str(host) / "log" for host in (0, 1)]
    assert [log.read_text() for log in logs] == ["rank 0 of 2\n", "rank 1 of 2\n"]


def test_jobs_side_by_side_have_ports_of_their_own(runs: dict[str, Any]) -> None:
    plans = [json.loads((runs["output"] / name / "attempts/1/plan.json").read_text()) for name in RIGHT]
    assert len({plan["coordinator"] for plan in plans}) == len(plans)


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_call_ends_with_2_and_one_line_that_says_what_to_change(runs: dict[str, Any], name: str) -> None:
    process = runs[f"wrong-{name}"]
    assert process.wait() == 2, process.err
    assert process.out == ""
    (line,) = process.err.splitlines()
    assert line.startswith("prefect-tpu: ") and line.endswith((".", "?"))


def test_wrong_calls_leave_nothing_behind(runs: dict[str, Any]) -> None:
    assert {path.name for path in runs["output"].iterdir()} - {".data"} == set(RIGHT)


@pytest.mark.parametrize("result_type", ["json", "pickle"])
def test_a_python_function_travels_and_its_value_comes_back(
    machine: Any, monkeypatch: pytest.MonkeyPatch, result_type: str
) -> None:
    for name in ("XDG_DATA_HOME", "PREFECT_TPU_OUTPUT"):
        monkeypatch.setenv(name, machine.environment[name])
    outside = {"offset": 5}

    def program(times: int) -> Any:
        import prefect_tpu

        total = sum(range(times)) + outside["offset"] + prefect_tpu.info().hosts
        return total if result_type == "json" else (total, complex(0, 1))

    folder = str(machine.output / "function")
    packed = pack_function(program, {"times": 4})
    packed.send(LocalStorage(folder))
    job = SliceJob(name="function", program=packed.program, accelerators=("cpu-2x1",))
    with driving(job, folder) as driven:
        result: JobResult = drive_to_end(driven)
    assert result.state == "succeeded"
    value = values.load(LocalStorage(folder), 1)
    assert value == (13 if result_type == "json" else (13, 1j))
    assert os.environ["PREFECT_TPU_OUTPUT"] == str(machine.output) and machine.left() == []
