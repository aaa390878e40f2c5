"""What has been written down about a job: its attempts, its end, and the wish that it stop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.conflicts import check_same
from prefect_tpu.infra.errors import Failure, PlatformError
from prefect_tpu.infra.job import AttemptSummary, JobResult, SliceJob
from prefect_tpu.infra.launcher import rehearsed
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import Storage


def enter(storage: Storage, job: SliceJob) -> SliceJob:
    """Write `job.json`, or find it equal. Raises `Conflict` where it was asked for differently.

    A job that has ended may be asked for with other settings; `begin_round` writes them down.
    """
    if not storage.put_if_absent(layout.JOB, job.to_json()):
        check_stored(storage, job)
    return job


def check_stored(storage: Storage, job: SliceJob) -> None:
    """Raise `Conflict` where a job of this name lies there that was asked for differently.

    The settings of one that has ended may differ.
    """
    stored = read_job(storage)
    if stored is not None:
        check_same(job, stored, has_ended=read_result(storage) is not None)


def read_job(storage: Storage) -> SliceJob | None:
    raw = storage.get(layout.JOB)
    with said_where(storage, layout.JOB):
        return None if raw is None else SliceJob.from_json(raw)


def is_there(storage: Storage) -> bool:
    """Whether the job is still there; not once somebody has deleted its folder, or moved it away."""
    return storage.get(layout.JOB) is not None


def read_result(storage: Storage) -> JobResult | None:
    """The job's end; None while it has none."""
    raw = storage.get(layout.RESULT)
    if raw is None:
        return None
    with said_where(storage, layout.RESULT):
        result = JobResult.from_json(contract.read_json(raw, layout.RESULT))
    return replace(result, output=storage.url)  # the folder may have been moved since


def write_result(storage: Storage, result: JobResult) -> JobResult:
    """Write the end, create-only: whoever was first is right."""
    storage.put_if_absent(layout.RESULT, contract.write_json(result.to_json()))
    written = read_result(storage)
    assert written is not None, "result.json was written above"
    return written


def begin_round(storage: Storage, job: SliceJob) -> None:
    """A failed or stopped job is run again: keep its end aside, give it a fresh budget and the settings of now.

    So is one that runs a Prefect flow, which ends well whatever becomes of the flow: who runs that again, knows why.
    May be cut short anywhere and repeated.
    """
    result = read_result(storage)
    if result is not None and (result.state != "succeeded" or job.program.kind == "flow"):
        last = max(attempt_numbers(storage), default=0)
        storage.put_if_absent(layout.round_end(last), contract.write_json(result.to_json()))
        _take_over(storage, job)
        storage.delete(layout.STOP)  # before the result: without a result, a stop is one to be obeyed
        storage.delete(layout.RESULT)


def _take_over(storage: Storage, job: SliceJob) -> None:
    """Write the job as it is asked for now. Other drills than before have not struck yet."""
    stored = read_job(storage)
    if stored is not None and stored.drills != job.drills:
        for name in storage.list(layout.DRILLS):
            storage.delete(name)
    else:
        rehearsed.end_stockouts(storage, job)
    storage.put(layout.JOB, job.to_json())


def attempt_numbers(storage: Storage) -> list[int]:
    """Numbers of all attempts that have a plan, lowest first."""
    numbers = layout.numbered(storage.children(layout.ATTEMPTS))
    while numbers and storage.get(layout.plan(numbers[-1])) is None:  # cut short: the next one has this number again
        numbers.pop()
    return numbers


def after_rounds(ends: Iterable[str]) -> int:
    """The number that a round's first attempt has or will have, by the names of the ends of earlier rounds."""
    return 1 + max(layout.numbered(ends, ".json"), default=0)


def read_plan(storage: Storage, number: int) -> HostPlan:
    plan = find_plan(storage, number)
    if plan is None:
        raise PlatformError(f"{layout.plan(number)} is missing from {storage.url}: the attempt cannot be followed.")
    return plan


def find_plan(storage: Storage, number: int) -> HostPlan | None:
    """What was sent; None where nothing was."""
    raw = storage.get(layout.plan(number))
    if raw is None:
        return None
    with said_where(storage, layout.plan(number)):
        return HostPlan.from_json(raw)


def read_outcome(storage: Storage, number: int) -> AttemptSummary | None:
    """How an attempt ended; None while it has no outcome."""
    raw = storage.get(layout.outcome(number))
    if raw is None:
        return None
    with said_where(storage, layout.outcome(number)):
        data = contract.read_json(raw, layout.outcome(number))
        return AttemptSummary.from_json({key: value for key, value in data.items() if key != "version"})


def judge(storage: Storage, number: int, failure: Failure | None) -> Failure | None:
    """Why an attempt ends; the first verdict stays.

    Hosts that are ended after it leave other evidence than they gave: a driver
    that was killed in between must not be judged again by that.
    """
    name = layout.verdict(number)
    if storage.put_if_absent(name, contract.write_json({"failure": failure and failure.to_json()})):
        return failure
    with said_where(storage, name), contract.reading(name):
        first = contract.read_json(storage.get(name) or b"", name)["failure"]
        return first and Failure.from_json(first)


def write_outcome(storage: Storage, summary: AttemptSummary) -> None:
    storage.put_if_absent(layout.outcome(summary.number), contract.write_json(summary.to_json()))


def all_ended(storage: Storage) -> tuple[AttemptSummary, ...]:
    """Every attempt of the job that has an outcome, oldest first."""
    found = (read_outcome(storage, number) for number in attempt_numbers(storage))
    return tuple(outcome for outcome in found if outcome is not None)


def ask_to_stop(storage: Storage, reason: str) -> bool:
    """Write `stop.json`; False where somebody had asked before.

    It comes before anything is stopped, so that nobody starts another attempt.
    """
    return storage.put_if_absent(layout.STOP, contract.write_json({"reason": reason}))


def withdraw_stop(storage: Storage) -> None:
    storage.delete(layout.STOP)


def is_stop_asked(storage: Storage) -> bool:
    return storage.get(layout.STOP) is not None


def stop_reason(storage: Storage) -> str | None:
    """Why somebody asked it to stop; None where nobody did."""
    raw = storage.get(layout.STOP)
    if raw is None:
        return None
    with said_where(storage, layout.STOP):
        return str(contract.read_json(raw, layout.STOP).get("reason"))


@contextmanager
def said_where(storage: Storage, name: str) -> Iterator[None]:
    """Damage is mended by hand, so whoever reads of it must find the file."""
    try:
        yield
    except contract.ContractError as exc:
        raise contract.ContractError(f"{exc} The file is {storage.where(name)}.") from exc
