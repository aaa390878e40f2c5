"""What an interrupt at the terminal means: the first one stops the job, the second leaves it running."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slices, pytest.mark.timeout(90)]

COUNTER = f"{Path(__file__).parents[1]}/programs/counter.py:main"
INTERRUPTED, TERMINATED = 130, 143


TOTAL = sum(range(10))


def count(machine: Any, wait_until: Callable[..., None]) -> Any:
    """The shell command, once its program has begun and holds at step 5."""
    options = ["--name", "count", "-a", "cpu-2x1", "-p", "steps=10", "-p", "hold_at=5", "--json"]
    process = machine.prefect_tpu("run", COUNTER, *options)
    states = [machine.output / f"count/counter/state-{host}.json" for host in (0, 1)]
    wait_until(lambda: all(state.exists() for state in states), "the first step")
    return process


def count_on(machine: Any, wait_until: Callable[..., None]) -> Any:
    """The same call again, with nothing to hold for; its end."""
    (machine.output / "count/counter/go").touch()
    process = count(machine, wait_until)
    assert process.wait() == 0, process.err
    assert machine.left() == []
    return process.result()


def test_the_first_interrupt_stops_the_job_and_the_same_name_goes_on(
    machine: Any, wait_until: Callable[..., None]
) -> None:
    first = count(machine, wait_until)
    first.popen.send_signal(signal.SIGINT)
    assert first.wait() == INTERRUPTED, first.err
    stopped = first.result()
    assert (stopped["state"], stopped["value"], stopped["failure"]["kind"]) == ("stopped", None, "stopped")
    assert [attempt["outcome"] for attempt in stopped["attempts"]] == ["stopped"]
    assert "Interrupt again to leave the job running" in first.err and machine.left() == []

    again = count_on(machine, wait_until)  # needs the slice: it was given back
    assert again["value"]["total"] == TOTAL and again["value"]["attempt"] == 2 and again["value"]["began_at"] > 0
    assert [attempt["outcome"] for attempt in again["attempts"]] == ["stopped", "succeeded"]


def test_the_second_interrupt_leaves_the_job_running_and_says_how_to_attach(
    machine: Any, wait_until: Callable[..., None]
) -> None:
    first = count(machine, wait_until)
    first.popen.send_signal(signal.SIGINT)
    wait_until(lambda: "Interrupt again" in first.err, "the answer to the first interrupt")
    first.popen.send_signal(signal.SIGINT)
    assert first.wait() == INTERRUPTED and first.out == ""
    assert "runs on" in first.err and "prefect-tpu attach count" in first.err
    assert len(machine.left()) == 4  # a runner and its program on each host

    again = count_on(machine, wait_until)
    assert [attempt["outcome"] for attempt in again["attempts"]] == ["succeeded"]
    assert again["value"] == {"total": TOTAL, "attempt": 1, "began_at": 0}


def test_a_terminal_that_is_closed_leaves_the_job_running(machine: Any, wait_until: Callable[..., None]) -> None:
    first = count(machine, wait_until)
    for _ in range(2):  # as the shell and the kernel do
        first.popen.send_signal(signal.SIGHUP)
    assert first.wait() == INTERRUPTED and "runs on" in first.err and "driven by process" in first.err
    assert len(machine.left()) == 4  # a runner and its program on each host

    again = count_on(machine, wait_until)
    assert again["value"] == {"total": TOTAL, "attempt": 1, "began_at": 0}


def test_interrupted_twice_while_it_stops_the_same_name_goes_on(machine: Any, wait_until: Callable[..., None]) -> None:
    """The hosts were told already: they leave, and whoever runs the job again finds it stopped and goes on."""
    first = count(machine, wait_until)
    first.popen.send_signal(signal.SIGINT)
    wait_until(lambda: "stopping: the hosts save and leave" in first.err, "the stop")
    first.popen.send_signal(signal.SIGINT)
    assert first.wait() == INTERRUPTED
    assert count_on(machine, wait_until)["value"]["total"] == TOTAL


def test_a_terminated_driver_makes_its_hosts_save_and_leave_and_the_job_keeps_no_end(
    machine: Any, wait_until: Callable[..., None]
) -> None:
    first = count(machine, wait_until)
    first.popen.send_signal(signal.SIGTERM)
    assert first.wait() == TERMINATED
    assert (machine.output / "count/attempts/1/outcome.json").exists() and machine.left() == []
    assert not (machine.output / "count/result.json").exists()
