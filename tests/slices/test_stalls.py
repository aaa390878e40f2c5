"""Hosts that stand still are found, told from slow ones, and named; on real processes.

All jobs run at once, each on a slice of its own of one machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from prefect_tpu.infra import layout

pytestmark = [pytest.mark.slices, pytest.mark.timeout(180)]

LIMIT = 3.0  # seconds of silence; a start of two hosts beside each other may take some
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "hangs": ("together", {"steps": 6, "still_at": 3, "host": 1}, {"max_preemptions": 0}),
    "hangs-once": ("together", {"steps": 6, "still_at": 3, "host": 0}, {}),
    "leader": ("leader_reports", {"seconds": 4 * LIMIT}, {}),
    "unwatched": ("never_reports", {"seconds": 3 * LIMIT}, {}),
}


@pytest.fixture(scope="module")
def jobs(new_machine: Callable[[], Any], lay_down_on: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    with new_machine() as machine:
        machine.environment["PREFECT_TPU_LOCAL_SLICES"] = str(len(CASES))
        laid = {
            name: lay_down_on(machine, f"stander.py:{function}", params, name=name, stall_timeout=LIMIT, **settings)
            for name, (function, params, settings) in CASES.items()
        }
        drivers = {name: job.drive() for name, job in laid.items()}
        ended = {name: (laid[name], driver.result()) for name, driver in drivers.items()}
        assert machine.left() == []
        yield ended


def record(job: Any, host: int) -> dict[str, Any]:
    return json.loads(job.storage.get(layout.record(1, host)))  # type: ignore[no-any-return]


def test_the_host_that_stopped_first_is_named_with_where_it_stands(jobs: dict[str, Any]) -> None:
    job, result = jobs["hangs"]
    failure = result["failure"]
    assert (result["state"], failure["kind"], failure["host"]) == ("failed", "stalled", 1)
    assert "host 1 stopped first, after step 2, in stander.py:" in failure["message"]
    assert "in stand_still; the stacks of all hosts are in attempts/1/hosts/*/stacks.txt." in failure["message"]
    assert failure["retryable"]


def test_every_host_keeps_its_stacks_and_says_who_ended_it(jobs: dict[str, Any]) -> None:
    job, _ = jobs["hangs"]
    stacks = [job.storage.get(layout.stacks(1, host)).decode() for host in (0, 1)]
    assert "in meet" in stacks[0] and "in stand_still" in stacks[1]
    for host in (0, 1):
        found = record(job, host)
        assert (found["exit_code"], found["killed_by"], found["program_signal"]) == (86, "stall", 9)
        assert found["silence"]["silent_for"] >= LIMIT and found["progress"]["step"] == 3 - host
        assert "in together" in found["error"]["traceback"]


def test_a_job_that_stood_still_is_tried_again(jobs: dict[str, Any]) -> None:
    _, result = jobs["hangs-once"]
    assert [attempt["outcome"] for attempt in result["attempts"]] == ["stalled", "succeeded"]
    assert (result["attempts"][0]["failure"]["host"], result["value"]) == (0, 6)


def test_a_host_that_never_reports_again_is_no_stall_while_the_leader_does(jobs: dict[str, Any]) -> None:
    job, result = jobs["leader"]
    assert [attempt["outcome"] for attempt in result["attempts"]] == ["succeeded"]
    assert job.storage.get(layout.stacks(1, 0)) is None
    assert b"in leader_reports" in job.storage.get(layout.stacks(1, 1)), "the other host was silent for long"
    assert job.storage.get(layout.silence(1, 1)) is None, "silence ends with the program"


def test_a_program_that_gives_no_sign_is_not_watched(jobs: dict[str, Any]) -> None:
    job, result = jobs["unwatched"]
    assert [attempt["outcome"] for attempt in result["attempts"]] == ["succeeded"]
    assert all(job.storage.get(layout.stacks(1, host)) is None for host in (0, 1))


def test_a_long_compilation_is_no_stall(machine: Any, lay_down_on: Callable[..., Any]) -> None:
    job = lay_down_on(machine, "stander.py:compiles", {"seconds": 6.0}, on="cpu", stall_timeout=1.0)
    result = job.drive().result()
    assert (result["state"], result["value"]) == ("succeeded", "done"), result["failure"]
    assert "jax/_src/interpreters/mlir.py" in job.storage.get(layout.stacks(1, 0)).decode()
    assert job.storage.get(layout.silence(1, 0)) is None
