"""Jobs that go on without their callers: submitted, attached to, followed, stopped, and driven on by whoever waits."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import prefect_tpu
from prefect_tpu.infra import layout
from prefect_tpu.infra.launcher.lease import driver_of
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.slices, pytest.mark.timeout(240)]

Wait = Callable[..., None]
PROGRAMS = Path(__file__).parents[1] / "programs"
COUNTER = f"{PROGRAMS}/counter.py:main"
TOTAL = sum(range(10))


@pytest.fixture
def here(machine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The machine of the test's own, also for calls in this process."""
    for name in ("XDG_DATA_HOME", "PREFECT_TPU_OUTPUT"):
        monkeypatch.setenv(name, machine.environment[name])
    yield machine
    for folder in machine.output.glob("*"):
        if (folder / layout.LEASE).exists():
            driver(LocalStorage(folder)).kill()


def driver(storage: LocalStorage) -> psutil.Process:
    found = driver_of(storage)
    assert found is not None, f"nobody drives {storage.url}"
    return psutil.Process(found.pid)


def count(name: str, **options: Any) -> prefect_tpu.Job:
    """The counter's job, which holds at step 5 until it may go on."""
    return prefect_tpu.submit(COUNTER, "cpu-2x1", name=name, params={"steps": 10, "hold_at": 5}, **options)


def wait_for_step(job: prefect_tpu.Job, wait_until: Wait) -> LocalStorage:
    storage = LocalStorage(job.folder)
    wait_until(lambda: all(storage.get(f"counter/state-{host}.json") for host in (0, 1)), "a step")
    return storage


def lives(job: prefect_tpu.Job, attempt: int) -> bool:
    """Whether every host of the attempt runs; it may hold where it has nothing to report."""
    seen = job.status()
    return seen.attempt == attempt and all(host.phase == "running" for host in seen.hosts)


def test_a_job_outlives_its_caller_whatever_becomes_of_that_and_of_its_terminal(here: Any, wait_until: Wait) -> None:
    note = here.folder / "note"
    words = [sys.executable, PROGRAMS / "caller.py", "count", COUNTER, note]
    caller = here.start("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words)
    wait_until(note.exists, "the job", 60)
    job = prefect_tpu.attach("count")
    assert eval(note.read_text(), {"attach": prefect_tpu.attach}) == job
    storage = wait_for_step(job, wait_until)

    os.killpg(caller.popen.pid, signal.SIGHUP)
    assert caller.wait() == -signal.SIGHUP
    for number in (signal.SIGHUP, signal.SIGINT):
        driver(storage).send_signal(number)
    assert not job.done()
    with pytest.raises(TimeoutError, match="'count' has not ended after 0.2 s; it runs on"):
        job.result(timeout=0.2)
    status = job.status()
    assert (status.name, status.state, status.attempt, len(status.hosts)) == ("count", "running", 1, 2)

    storage.put("counter/go", b"")
    result = job.result()
    assert result.value == {"total": TOTAL, "attempt": 1, "began_at": 0}
    assert job.done() and job.status().state == "succeeded" and here.left() == []
    assert count("count").result() == result, "a job that has succeeded is not run again"


def test_a_killed_driver_is_followed_by_another_and_a_terminated_one_lets_the_hosts_leave(
    here: Any, wait_until: Wait
) -> None:
    job = count("count", grace=10)
    storage = wait_for_step(job, wait_until)
    driver(storage).kill()
    lines = job.logs(0, follow=True)  # whoever follows the logs sees to the job too
    storage.put("counter/go", b"")
    assert list(lines) == []
    assert [attempt.outcome for attempt in job.result().attempts] == ["succeeded"]

    again = count("again", grace=10)
    storage = wait_for_step(again, wait_until)
    left = driver(storage)
    left.terminate()
    wait_until(lambda: not here.left() and not left.is_running(), "the end of all hosts and of their driver")
    assert not again.done() and again.status().is_abandoned
    storage.put("counter/go", b"")
    result = again.result()
    assert [attempt.outcome for attempt in result.attempts] == ["preempted", "succeeded"]
    assert result.value["total"] == TOTAL and result.value["began_at"] > 0


def test_a_stopped_job_has_its_end_and_goes_on_when_it_is_submitted_again(here: Any, wait_until: Wait) -> None:
    job = count("count", grace=10)
    storage = wait_for_step(job, wait_until)
    job.stop()
    assert job.done() and job.status().state == "stopped" and here.left() == []
    with pytest.raises(prefect_tpu.JobFailed, match="'count' was stopped: .*Run the same name again"):
        job.result()
    with pytest.raises(prefect_tpu.Conflict, match="'count' exists and was asked for differently"):
        prefect_tpu.submit(COUNTER, "cpu-2x1", name="count", params={"steps": 3})

    count("count", grace=10)
    wait_until(lambda: lives(job, attempt=2), "the second attempt")
    driver(storage).kill()
    job.stop()  # also where nobody is left who could obey
    assert job.status().state == "stopped" and here.left() == []

    storage.put("counter/go", b"")
    result = count("count", grace=10).result()
    assert result.value["total"] == TOTAL
    assert [attempt.outcome for attempt in result.attempts] == ["stopped", "stopped", "succeeded"]


def test_a_function_travels_and_a_large_value_is_not_repeated(here: Any) -> None:
    large = {"of": complex(0, 1)}

    def program(times: int) -> Any:
        sys.stdout.write(f"host {prefect_tpu.info().host} of {prefect_tpu.info().hosts}\n")
        return ["x" * 100] * times if prefect_tpu.info().job == "text" else (times, large)

    text = prefect_tpu.submit(program, "cpu-2x1", name="text", params={"times": 1000})
    pickle = prefect_tpu.submit(program, "cpu", name="pickle", params={"times": 2})
    assert text.result().value == ["x" * 100] * 1000
    written = json.loads((Path(text.folder) / layout.RESULT).read_text())["value"]
    assert written.startswith("a JSON value of 104000 bytes in ") and written.endswith(layout.result(1, 0))
    assert sorted(text.logs()) == ["host 0 | host 0 of 2", "host 1 | host 1 of 2"]
    assert list(text.logs(1)) == ["host 1 of 2"]
    with pytest.raises(prefect_tpu.UsageError, match="Attempt 1 has no host 2: it has 2, counted from 0"):
        list(text.logs(2))
    assert pickle.result().value == (2, large) and list(pickle.logs()) == ["host 0 of 1"]
    with pytest.raises(prefect_tpu.NoSuchJob, match="'txt' .*Did you mean 'text'"):
        prefect_tpu.attach("txt")


def test_a_driver_that_cannot_drive_is_told_where_the_job_was_asked_for(
    here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHOME", str(here.output / "no-python"))  # heard only by the driver's own Python
    with pytest.raises(prefect_tpu.PlatformError, match="ended before it drove the job(.|\n)*encodings"):
        prefect_tpu.submit(COUNTER, "cpu", name="count")
    monkeypatch.delenv("PYTHONHOME")
    assert prefect_tpu.attach("count").result().value["total"] == sum(range(20))


NOTEBOOK = """
import asyncio
from dataclasses import dataclass

import beside
import prefect_tpu

@dataclass
class Wish:
    times: int
# %%
def helper(wish):
    import only_inside
    return beside.double(wish.times) + only_inside.ONE
# %%
wish = Wish(20)

def program():
    return Wish(helper(wish))

asyncio.get_running_loop()
job = prefect_tpu.submit(program, name="cell")
# %%
value = job.result().value
print(value, isinstance(value, Wish))
"""


def test_a_notebook_s_cells_travel_with_the_modules_beside_it(here: Any) -> None:
    (here.folder / "beside.py").write_text("def double(x):\n    return 2 * x\n")
    (here.folder / "only_inside.py").write_text("ONE = 1\n")
    (here.folder / "notebook.py").write_text(NOTEBOOK)
    kernel = here.start(sys.executable, PROGRAMS / "cells.py", here.folder / "notebook.py", PYTHONSAFEPATH="")
    assert kernel.wait(200) == 0, kernel.err + kernel.out
    assert kernel.out.splitlines()[-1] == "Wish(times=41) True"
