"""How attempts end that were not meant to: the kind, the host, and what is said; on real processes.

The hosts of the first table run no JAX and all jobs at once, each on a slice of its own of one machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.request import Request, prepare
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.slices, pytest.mark.timeout(120)]

# A shell that hears SIGTERM and does not pass it on, and a child of it that does hear.
GROUP = "trap 'echo heard >> shell' TERM; sh -c 'trap \"echo heard >> child; exit\" TERM; while :; do sleep 0.1; done'"
# A daemon with nothing of ours in its environment: only its parent tells whose it is.
DAEMON = "(env -i setsid sh -c 'echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 600' &); until [ -e pid ]; do :; done"
PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "code": ("stander.py:leaves", {"params": {"how": "code"}}),
    "text": ("stander.py:leaves", {"params": {"how": "text"}}),
    "at-once": ("stander.py:leaves", {"params": {"how": "at once"}}),
    "lock": ("stander.py:returns_a_lock", {}),
    "no-number": ("stander.py:returns_no_number", {}),
    "thread": ("stander.py:leaves_a_thread", {}),
    "deadline": ("stubborn.py:main", {"settings": {"deadline": 2.0, "grace": 0.5}}),
    "group": ("sh", {"arguments": ("-c", GROUP), "settings": {"deadline": 2.0}}),
    "daemon": ("sh", {"arguments": ("-c", DAEMON)}),
}


@pytest.fixture(scope="module")
def results(new_machine: Callable[[], Any]) -> Iterator[dict[str, dict[str, Any]]]:
    with new_machine() as machine:
        machine.environment["PREFECT_TPU_LOCAL_SLICES"] = str(len(PROGRAMS))
        drivers = {name: drive(machine, name, program, **how) for name, (program, how) in PROGRAMS.items()}
        ended = {name: driver.result() for name, driver in drivers.items()}
        assert machine.left() == []
        yield ended


def drive(machine: Any, name: str, program: str, on: str = "cpu", **how: Any) -> Any:
    """A process that drives the job to its end."""
    programs = Path(__file__).parents[1] / "programs"
    place = program if program == "sh" else str(programs / program)
    job = prepare(Request(name=name, program=place, accelerators=(on,), output=str(machine.output), **how))
    path = machine.folder / f"{name}.json"
    path.write_bytes(job.to_json())
    return machine.start(sys.executable, "-P", programs / "drive.py", path, machine.output / name)


def folder(result: dict[str, Any]) -> LocalStorage:
    return LocalStorage(Path(result["output"], layout.host(1, 0)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("code", "SystemExit: the program called sys.exit(3)"),
        ("text", "SystemExit: no data for this day"),
        ("at-once", "The program ended with exit code 4."),
        ("lock", "TypeError: the program returned a lock, which cannot be sent back"),
    ],
)
def test_a_program_that_leaves_otherwise_than_by_returning_is_told(
    results: dict[str, dict[str, Any]], name: str, message: str
) -> None:
    failure = results[name]["failure"]
    assert (failure["kind"], failure["host"]) == ("program_error", 0)
    assert failure["message"].startswith(message)


def test_not_a_number_is_a_result_that_any_reader_of_json_understands(results: dict[str, dict[str, Any]]) -> None:
    assert results["no-number"]["value"] == {"loss": "NaN", "steps": 3}


def test_threads_left_behind_do_not_keep_a_program(results: dict[str, dict[str, Any]]) -> None:
    result = results["thread"]
    assert (result["state"], result["value"]) == ("succeeded", "returned")
    assert b"threads of it still run after 5 s: 'uploader'" in (folder(result).get("log") or b"")
    assert folder(result).get("scratch/work/handler-ran") == b""


def test_a_deadline_ends_a_program_that_ignores_it(results: dict[str, dict[str, Any]]) -> None:
    result = results["deadline"]
    assert (result["state"], result["failure"]["kind"]) == ("failed", "deadline")
    record = json.loads(folder(result).get("record.json") or b"")
    assert (record["stop_reason"], record["killed_by"], record["program_signal"]) == ("deadline", "grace", 9)


def test_the_children_of_a_command_are_told_to_leave_too(results: dict[str, dict[str, Any]]) -> None:
    result = results["group"]
    assert result["failure"]["kind"] == "deadline"
    assert json.loads(folder(result).get("record.json") or b"")["killed_by"] is None
    assert [folder(result).get(f"scratch/work/{name}") for name in ("shell", "child")] == [b"heard\n"] * 2


def test_a_daemon_of_a_program_ends_with_it(results: dict[str, dict[str, Any]]) -> None:
    assert results["daemon"]["state"] == "succeeded"
    assert not psutil.pid_exists(int(folder(results["daemon"]).get("scratch/work/pid") or b""))


# -- hosts that do not find what they need, with JAX ------------------------------------------------


def test_a_host_that_does_not_come_is_named_by_the_leader(machine: Any) -> None:
    settings = {"join_timeout": 2.0, "max_preemptions": 0}
    params = {"host": 1, "seconds": 60.0}
    result = drive(machine, "job", "stander.py:does_not_join", on="cpu-2x1", params=params, settings=settings).result()
    failure = result["failure"]
    assert (failure["kind"], failure["retryable"]) == ("could_not_join", True)
    assert "of its 2 hosts 1 did not come within 2 s" in failure["message"]
    assert machine.left() == []


def test_other_devices_than_planned_are_named(machine: Any) -> None:
    params = {"devices": 3}
    result = drive(machine, "job", "stander.py:finds_other_devices", on="cpu-2x1", params=params).result()
    failure = result["failure"]
    assert (failure["kind"], failure["retryable"], len(result["attempts"])) == ("wrong_topology", False, 1)
    assert "devices of this host: 3 instead of 1" in failure["message"] and "devices in all: 6" in failure["message"]
    assert machine.left() == []
