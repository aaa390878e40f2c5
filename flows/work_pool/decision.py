"""What is due, given what Prefect says of a run and what is written of its job? Pure: facts in, one action out.

The engine on the slice says itself that the run is running and how it ended; all else is decided here. A run in a final
state is never moved, but for two: one that crashed because its slice was lost, and whose job goes on; and one that
crashed because it could not be submitted.
"""

from __future__ import annotations

from dataclasses import dataclass

from prefect.client.schemas.objects import StateType

from prefect_tpu.flows.work_pool.facts import Driver, JobFacts, JobPhase, RunFacts
from prefect_tpu.flows.work_pool.words import again, crashed, is_of_slice
from prefect_tpu.infra.launcher.handed_back import HandedBack
from prefect_tpu.infra.state import JobState

SUBMISSION_SECONDS = 45.0  # a worker that took a run has written its job or put it back by then, or was killed
UPLOAD_SECONDS = 600.0  # whoever submits a run without a deployment uploads its code meanwhile
CANCEL_SECONDS = 10.0  # the engine ends a run that is cancelled itself, in four seconds, and its hooks run
FINAL_SECONDS = 60.0  # a program whose run has its end leaves by itself
OTHERS_SECONDS = 120.0  # whoever else drives its job has seen to that by then, or looks at no runs
FOLDER_SECONDS = 60.0  # a job's folder that is not there for so long is gone
MOST_RESUBMISSIONS = 10  # ten minutes of workers that die; what kills each worker that takes it must end some day
FIRST_RESUBMISSION_SECONDS, LONGEST_RESUBMISSION_SECONDS = 5.0, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Nothing is due until something changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing is due yet; time alone may change that."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """Drive the job; attempts up to `after` are dealt with. `names`: the run is to be seen submitted first."""

    after: int
    names: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Ask the job to stop."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """The run has crashed. `of`: the attempt whose end it is, where it is one's."""

    message: str
    of: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """The run is cancelled."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """The run waits for its next start, which is due in some seconds. `of`: the attempt after which it is."""

    seconds: float
    message: str
    of: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """The run, which nobody hands out, is pending again: its next start is due."""


Proposal = Crash | Cancel | Requeue | Resume
Action = Leave | Wait | Drive | Stop | Proposal


def decide(run: RunFacts, job: JobFacts) -> Action:
    """The one action that is due now."""
    match job.phase:
        case JobPhase.UNKNOWN:
            return _without_job(run) if run.is_just_handed_out or run.is_unsubmitted else Leave()
        case JobPhase.ABSENT:
            return _without_job(run)
        case JobPhase.OVER:
            return _after_end(run, job)
        case JobPhase.OPEN:
            return _drive(run, job) if job.is_stop_asked else _of_open(run, job)


def _without_job(run: RunFacts) -> Action:
    if run.is_unsubmitted:
        return _resubmit(run)
    if run.type is StateType.PENDING:
        return _unless_submitted(run)
    if run.type is StateType.CANCELLING:
        return _after(run, CANCEL_SECONDS) or Cancel(message="Cancelled before it had a job.")
    if run.type is StateType.RUNNING:
        gone = "The folder of the run's job was deleted or moved away, so nothing is known of its program."
        return _after(run, FOLDER_SECONDS) or Crash(message=gone)
    return Leave()


def _unless_submitted(run: RunFacts) -> Action:
    """A worker that was killed between taking a run and writing its job left it pending for ever."""
    if not run.has_deployment:
        lost = "The run was never submitted: the process that was about to is gone. Call the flow again."
        return _after(run, UPLOAD_SECONDS) or Crash(message=lost)
    return _after(run, SUBMISSION_SECONDS) or _resubmit(run)


def _resubmit(run: RunFacts) -> Action:
    """Back to Prefect, which hands it out again; a little later each time, and not for ever."""
    if not run.has_deployment or run.resubmitted >= MOST_RESUBMISSIONS:
        return Leave() if run.is_final else Crash(message=f"Nothing came of {run.resubmitted + 1} submissions.")
    seconds = min(LONGEST_RESUBMISSION_SECONDS, FIRST_RESUBMISSION_SECONDS * 2**run.resubmitted)
    return Requeue(seconds=seconds, message=again(run.resubmitted + 1))


def _after_end(run: RunFacts, job: JobFacts) -> Action:
    """The job has its end; so has the run, or it is told now."""
    if run.is_unsubmitted:
        return _resubmit(run)
    if run.is_over or run.type is StateType.SCHEDULED:
        return Leave()
    if run.type is StateType.CANCELLING:
        return Cancel(message="Cancelled.")
    if run.is_just_handed_out:  # for a new round, which whoever submits it begins
        return _unless_submitted(run)
    if job.end is JobState.STOPPED:
        return Cancel(message=_stopped(job))
    if job.failure is not None:
        return Crash(message=crashed(job.failure), of=job.ended)
    if run.type is StateType.PAUSED:  # suspended: its program has left, and comes again when it is resumed
        return Leave()
    silent = "The program ended well and never told Prefect how the flow did: look whether it calls os._exit."
    return Crash(message=silent, of=job.ended)


def _stopped(job: JobFacts) -> str:
    return job.failure.message if job.failure is not None else "The job was stopped."


def _of_open(run: RunFacts, job: JobFacts) -> Action:
    match run.type:
        case None:
            return Stop(reason="its flow run was deleted")
        case StateType.CANCELLED:
            return Stop(reason="its flow run was cancelled")
        case StateType.CANCELLING:
            return _cancelling(run, job)
        case StateType.CRASHED | StateType.FAILED | StateType.COMPLETED:
            return _of_ended_run(run, job)
        case StateType.SCHEDULED:
            return _scheduled(run, job)
        case StateType.PENDING:
            return _drive(run, job)
        case _:  # running, or paused, which its program is told by nobody
            return _running(run, job)


def _cancelling(run: RunFacts, job: JobFacts) -> Action:
    stop = Stop(reason="its flow run is being cancelled")
    if not job.has_live:
        return stop
    if not job.is_driven and run.seconds < CANCEL_SECONDS:
        return _drive(run, job)
    return _after(run, CANCEL_SECONDS) or stop  # also where it cannot be driven now: whoever can, ends it


def _of_ended_run(run: RunFacts, job: JobFacts) -> Action:
    """Its program leaves by itself; what else there is of the job is in vain. But one that we said crashed goes on."""
    if run.is_unsubmitted and not job.has_live:
        return _resubmit(run)
    if _is_to_be_queued(run, job):
        return _requeue(job.due) if job.due else Leave()
    if run.has_deployment and job.is_driven and is_of_slice(run.message):
        return Leave()  # whoever drives is about to know what is due, or does what is
    stop = Stop(reason="its flow run has ended")
    if not job.has_live:
        return stop
    if not job.is_driven:
        return _drive(run, job)
    if job.driver is Driver.ANOTHER:  # which gives its program the same time, and from when it began to drive
        return _after(run, OTHERS_SECONDS) or stop
    left = FINAL_SECONDS - min(run.seconds, job.driven_for)  # its hosts may have left well while nobody looked
    return Wait(seconds=left) if left > 0.0 else stop


def _is_to_be_queued(run: RunFacts, job: JobFacts) -> bool:
    """Whether it crashed by our own words, which are the first half of what is due."""
    is_ours = job.due is not None and run.message == crashed(job.due.failure)
    return run.type is StateType.CRASHED and run.has_deployment and is_ours


def _scheduled(run: RunFacts, job: JobFacts) -> Action:
    """Prefect hands it out again when it is due, where it does that at all."""
    if job.has_live:
        return _drive(run, job)
    if not run.has_deployment:
        return Wait(seconds=run.due_in) if run.due_in > 0.0 else Resume()
    if run.is_withheld and job.due is not None and not job.is_driven:  # lost while it waited to repeat itself
        return Crash(message=crashed(job.due.failure), of=job.due.attempt)
    return Leave()


def _running(run: RunFacts, job: JobFacts) -> Action:
    if job.due is None or job.driver is Driver.ANOTHER:  # whose word it is
        return _drive(run, job)
    if run.has_deployment:
        return Crash(message=crashed(job.due.failure), of=job.due.attempt)
    return _requeue(job.due)  # callers take any final state for the end, and it is none


def _requeue(due: HandedBack) -> Requeue:
    return Requeue(seconds=due.seconds, message=f"{crashed(due.failure)} Tried again: {due.reason}.", of=due.attempt)


def _drive(run: RunFacts, job: JobFacts) -> Action:
    if job.is_driven:
        return Leave()
    return Drive(after=job.ended, names=run.is_just_handed_out and not job.is_stop_asked)


def _after(run: RunFacts, seconds: float) -> Wait | None:
    """Wait for the rest of the time; None where it is over."""
    return Wait(seconds=seconds - run.seconds) if run.seconds < seconds else None
