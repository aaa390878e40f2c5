"""Jobs with real hosts, looked at, followed, stopped and cleaned up from other shells."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.job import AttemptSummary, Program, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.status import read_status
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.slices, pytest.mark.timeout(180)]

Wait = Callable[..., None]
COUNTER = f"{Path(__file__).parents[1]}/programs/counter.py:main"
TOTAL = sum(range(10))
PROGRAM = Program(kind="module", target="m:f")
ENDED = AttemptSummary(number=1, accelerator="cpu-2x1", started=1.0, ended=2.0, outcome="succeeded", failure=None)


class Count:
    """The counter's job `count`, run by the shell, holding at step 5 until it may go on."""

    def __init__(self, machine: Any, wait_until: Wait, *words: str) -> None:
        self.machine, self._wait_until = machine, wait_until
        options = ["--name", "count", "-a", "cpu-2x1", "-p", "steps=10", "-p", "hold_at=5", "--json", *words]
        self.run = machine.prefect_tpu("run", COUNTER, *options)
        states = [self.storage.path(f"counter/state-{host}.json") for host in (0, 1)]
        wait_until(lambda: all(state.exists() for state in states) or self.run.popen.poll() is not None, "a step")

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(self.machine.output / "count")

    def go_on(self) -> None:
        self.storage.put("counter/go", b"")

    def ask(self, *words: str) -> Any:
        """Another shell's command, to its end."""
        process = self.machine.prefect_tpu(*words)
        process.wait()
        return process


@pytest.fixture
def count(machine: Any, wait_until: Wait) -> Count:
    return Count(machine, wait_until)


def test_a_job_is_followed_from_other_shells_while_it_runs(machine: Any, count: Count, wait_until: Wait) -> None:
    listed = json.loads(count.ask("list", "--json").out)
    assert [(job["name"], job["state"]) for job in listed] == [("count", "running")]
    assert listed[0]["driver"].startswith(f"process {count.run.popen.pid} on ")
    assert "2 running" in count.ask("status", "count").out
    attached = machine.prefect_tpu("attach", "count", "--json")
    logs = machine.prefect_tpu("logs", "count", "--all", "--follow")
    wait_until(lambda: "following it" in attached.err, "the second shell")
    over = count.ask("attach", "count", "--timeout", "0.5s")
    assert over.popen.returncode == 124 and "has no end after" in over.err and "driven by process" in over.err
    leaving = machine.prefect_tpu("attach", "count")
    wait_until(lambda: "following it" in leaving.err, "the third shell")
    leaving.popen.send_signal(signal.SIGINT)
    assert leaving.wait() == 130 and "runs on" in leaving.err
    count.go_on()
    assert count.run.wait() == 0 == attached.wait() == logs.wait(), (count.run.err, attached.err, logs.err)
    assert attached.result() == count.run.result() and attached.result()["value"]["total"] == TOTAL
    assert history.all_ended(count.storage)[-1].number == 1, "nobody stopped it"


def test_a_driven_job_is_stopped_by_a_wish_and_goes_on_when_it_is_run_again(
    machine: Any, count: Count, wait_until: Wait
) -> None:
    told = count.ask("stop", "count", "--no-wait")
    assert (told.popen.returncode, told.out.startswith("count is told to stop; process")) == (0, True)
    again = count.ask("stop", "count")
    assert again.popen.returncode == 0 and again.out.startswith("count stopped: The job was asked to stop. "), again.err
    assert count.run.wait() == 5 and machine.left() == []
    assert count.ask("attach", "count").popen.returncode == 5, "it has its end, and attaching begins nothing"
    assert history.attempt_numbers(count.storage) == [1]
    count.go_on()
    assert Count(machine, wait_until).run.result()["value"]["total"] == TOTAL


def test_a_job_whose_driver_is_dead_is_stopped_by_whoever_asks(machine: Any, count: Count) -> None:
    count.run.kill()
    assert read_status(count.storage.url).is_abandoned
    assert "Nobody drives it" in count.ask("status", "count").out
    stopped = count.ask("stop", "count", "--json")
    assert stopped.popen.returncode == 0 and stopped.result()["state"] == "stopped", stopped.err
    assert machine.left() == []


def test_a_job_whose_driver_is_dead_is_driven_by_whoever_attaches(machine: Any, count: Count) -> None:
    count.run.kill()
    count.go_on()
    driven = count.ask("attach", "count", "--json")
    assert driven.popen.returncode == 0, driven.err
    assert driven.result()["value"] == {"total": TOTAL, "attempt": 1, "began_at": 0}
    assert machine.left() == []


def test_a_detached_job_goes_on_in_the_background_and_is_stopped_from_there(machine: Any, wait_until: Wait) -> None:
    began = machine.prefect_tpu("run", COUNTER, "--detach", "--name", "count", "-p", "steps=10", "-p", "hold_at=5")
    assert (began.wait(), began.out) == (0, "count\n") and "prefect-tpu attach count" in began.err
    storage = LocalStorage(machine.output / "count")
    wait_until(lambda: (storage.root / "counter/state-0.json").exists(), "a step")
    stopped = machine.prefect_tpu("stop", "count", "--no-wait")
    assert stopped.wait() == 0 and "sees to it" in stopped.out
    wait_until(lambda: history.read_result(storage) is not None, "its end")
    assert read_status(storage.url).state == "stopped"
    wait_until(lambda: read_status(storage.url).driver is None, "the end of its driver")
    assert machine.left() == []


def test_what_an_ended_attempt_left_is_reaped_and_a_live_job_is_not(
    machine: Any, count: Count, wait_until: Wait
) -> None:
    """A process that carries the mark of an attempt that has its outcome: nobody ends it any more."""
    left_by = LocalStorage(machine.output / "old")
    history.enter(left_by, SliceJob(name="old", program=PROGRAM, accelerators=("cpu-2x1",)))
    left_by.put(layout.plan(1), (count.storage.get(layout.plan(1)) or b"").replace(b"/count", b"/old"))
    history.write_outcome(left_by, ENDED)
    waits = "import signal; signal.pause()"
    sleeper = machine.start(sys.executable, "-c", waits, PREFECT_TPU_ATTEMPT=f"{left_by.url}/1")
    wait_until(lambda: len(machine.left()) == 5, "the leftover")
    said = count.ask("reap", "--dry-run")
    assert said.out == "would end 1 process of attempt 1 of job 'old': the attempt has ended (succeeded)\n", said.err
    assert sleeper.popen.poll() is None
    assert count.ask("reap").out.startswith("ended 1 process of attempt 1 of job 'old'")
    assert sleeper.wait() == -signal.SIGKILL
    assert count.ask("reap", "--json").out == '{"found": [], "ended": true, "errors": []}\n'
    count.go_on()
    assert count.run.wait() == 0, "it was never touched"
