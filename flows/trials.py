"""Who carries the trials of a sweep out? A task each, side by side, in which the flow `train` runs."""

from __future__ import annotations

import queue
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State

from prefect_tpu.flows.train import train
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driving import drive_to_end, driving
from prefect_tpu.infra.storage import open_storage
from prefect_tpu.infra.sweep.driver import Call
from prefect_tpu.tasks.reporting import Reporter


class Trials:
    """The trials that are carried out now. Each says here when nobody drives its job any more."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[tuple[int, Exception | None]] = queue.SimpleQueue()

    def begin(self, call: Call) -> None:
        """Carry a job out, beside everything else."""
        trial.with_options(task_run_name=f"trial-{call.trial}").submit(call, self)

    def ended(self, at_most: float) -> tuple[int, Exception | None] | None:
        """(trial, why its call came to nothing, or None) of one that has ended; None where none does within seconds."""
        try:
            return self._ended.get(timeout=at_most)
        except queue.Empty:
            return None

    def say(self, number: int, error: Exception | None) -> None:
        """Called by the trial itself, in its own thread."""
        self._ended.put((number, error))


@task(name="trial", cache_policy=NO_CACHE, persist_result=False)
def trial(call: Call, trials: Trials) -> State[Any] | None:
    """One trial as a run of the flow `train`, whose state it ends in."""
    error: Exception | None = PlatformError(f"The thread of job {call.job!r} was ended. Run the sweep again to go on.")
    try:
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
        with driving(job, call.folder, Reporter(get_run_logger()), goes_on=False) as driven:
            drive_to_end(driven)


def _error(state: State[Any] | None) -> Exception | None:
    """What a run failed with. One that was cancelled has told its job's end in its state, and in the job's folder."""
    if state is None or not (state.is_failed() or state.is_crashed()):
        return None
    # Without `_sync` this is a coroutine where an event loop runs, as in a notebook.
    found: Any = state.result(raise_on_failure=False, _sync=True)  # type: ignore[call-overload]
    return found if isinstance(found, Exception) else PlatformError(f"The run of a trial ended: {state.message}")
