"""Who carries the trials of a sweep out? A task each, side by side, in which the flow `train` runs."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State

from prefect_tpu.flows.train import train
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driving import drive_to_end, driving
from prefect_tpu.infra.launcher.lease import Lease
from prefect_tpu.infra.launcher.status import pause_between_looks
from prefect_tpu.infra.storage import open_storage
from prefect_tpu.infra.sweep.driver import Call, SweepDriver
from prefect_tpu.infra.sweep.holding import check_ours
from prefect_tpu.tasks.chip_limits import ChipLimits
from prefect_tpu.tasks.reporting import Reporter
from prefect_tpu.tasks.run_logs import speaking

LOOK_SECONDS = 0.3
ASK_SECONDS = 2.0  # between two questions whether the run is being cancelled
TOLD_TO_END = "the process of its sweep was told to end"


def drive(driver: SweepDriver, lease: Lease, wishes: Callable[[], str | None]) -> None:
    """Until nothing is left to do. Whatever ends this process politely lets the trials save and stop."""
    trials, pause, next_question = Trials(), pause_between_looks(driver.storage, LOOK_SECONDS), 0.0
    try:
        while not driver.is_over:
            check_ours(lease)
            for call in driver.turn():
                trials.begin(call)
            if (ended := trials.ended(at_most=pause)) is not None:
                driver.ended(*ended)
            if time.monotonic() >= next_question:
                if (reason := wishes()) is not None:
                    driver.leave(reason)
                next_question = time.monotonic() + ASK_SECONDS
    except BaseException:
        if lease.successor() is None:  # else whoever drives now waits for these jobs
            _let_go(driver, trials, pause)
        raise


def _let_go(driver: SweepDriver, trials: Trials, pause: float) -> None:
    """Wait for those that have begun: a turn that was cut short leaves jobs that nobody carries out."""
    driver.interrupt(TOLD_TO_END)
    while trials.are_any:
        trials.ended(at_most=pause)
        driver.interrupt(TOLD_TO_END)


class Trials:
    """The trials that are carried out now. Each says here when nobody drives its job any more."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[tuple[int, Exception | None]] = queue.SimpleQueue()
        self._begun: set[int] = set()

    def begin(self, call: Call) -> None:
        """Carry a job out, beside everything else."""
        trial.with_options(task_run_name=f"trial-{call.trial}").submit(call, self)
        self._begun.add(call.trial)

    @property
    def are_any(self) -> bool:
        """Whether one has begun whose end was not told yet."""
        return bool(self._begun)

    def ended(self, at_most: float) -> tuple[int, Exception | None] | None:
        """(trial, why its call came to nothing, or None) of one that has ended; None where none does within seconds."""
        try:
            found = self._ended.get(timeout=at_most)
        except queue.Empty:
            return None
        self._begun.discard(found[0])
        return found

    def say(self, number: int, error: Exception | None) -> None:
        """Called by the trial itself, in its own thread."""
        self._ended.put((number, error))


@task(name="trial", cache_policy=NO_CACHE, persist_result=False)
def trial(call: Call, trials: Trials) -> State[Any] | None:
    """One trial as a run of the flow `train`, whose state it ends in. Others speak at the same time."""
    error: Exception | None = PlatformError(f"The thread of job {call.job!r} was ended. Run the sweep again to go on.")
    try:
        with speaking(f"trial {call.trial}"):
            state = _carry_out(call)
        error = _error(state)
        return state
    except Exception as exc:
        error = exc
        raise
    finally:
        trials.say(call.trial, error)


def _carry_out(call: Call) -> State[Any] | None:
    if call.parameters is None:
        _bring_to_end(call)
        return None
    state: State[Any] = train.with_options(flow_run_name=call.job)(**call.parameters, return_state=True)
    return state


def _bring_to_end(call: Call) -> None:
    """A job that was asked to stop: `train` would let it go on."""
    job = history.read_job(open_storage(call.folder))
    if job is not None:
        report = Reporter(get_run_logger())
        with driving(job, call.folder, report, goes_on=False, permits=ChipLimits()) as driven:
            drive_to_end(driven)


def _error(state: State[Any] | None) -> Exception | None:
    """What a run failed with. One that was cancelled has told its job's end in its state, and in the job's folder."""
    if state is None or not (state.is_failed() or state.is_crashed()):
        return None
    # Without `_sync` this is a coroutine where an event loop runs, as in a notebook.
    found: Any = state.result(raise_on_failure=False, _sync=True)  # type: ignore[call-overload]
    return found if isinstance(found, Exception) else PlatformError(f"The run of a trial ended: {state.message}")
