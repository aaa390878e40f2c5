"""What would be sent if this were asked for now? Found out without writing or starting anything."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.backends.base import Attempt, Plan, Refused
from prefect_tpu.infra.errors import Failure, PlatformError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher import checkpoints, history
from prefect_tpu.infra.policy.capacity import choose
from prefect_tpu.infra.policy.offers import named, offers_of
from prefect_tpu.infra.request import Request, imagine, imagine_unseen, job_folder
from prefect_tpu.infra.state import Offer
from prefect_tpu.infra.storage import BUCKET, Storage, open_storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A job before it runs.

    what: what would happen, as a sentence.
    plan: of the attempt that would begin or be followed; None where none would.
    offers: all that would be asked in turn, by name, first the one that is liked best.
    refused: offer → why it is not to be had here.
    failure: how the job would end at once; None where something would start, or it has succeeded.
    payload: name → bytes of each file that travels; compressed: bytes of the whole.
    """

    job: SliceJob
    what: str
    plan: Plan | None
    offers: tuple[str, ...]
    refused: Mapping[str, str]
    failure: Failure | None
    payload: Mapping[str, int]
    compressed: int


def preview(request: Request) -> Preview:
    """Raises `UsageError` for whatever `run` would refuse, as far as it can be known here."""
    folder = job_folder(request.output, request.name)
    try:
        job, packed = imagine(request)
        found = _next(job, open_storage(folder))
        what = found.what
    except PlatformError as exc:
        if not folder.startswith(BUCKET):
            raise
        job, packed = imagine_unseen(request)
        found = _new_attempt(job, Attempt(job=job, number=1, output=folder))
        what = (
            f"{found.what} This is a guess, for a job whose name is new: what lies in its output cannot be seen. {exc}"
        )
    offers = offers_of(job)
    return Preview(
        job=job,
        what=what,
        plan=found.plan,
        offers=tuple(named(offer, offers) for offer in offers),
        refused=found.refused,
        failure=found.failure,
        payload=_sizes(packed.payload),
        compressed=len(packed.payload or b""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Next:
    """What would happen, as `Preview` has it."""

    what: str
    plan: Plan | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    failure: Failure | None = None


def _next(job: SliceJob, storage: Storage) -> _Next:
    result = history.read_result(storage)
    if result is not None and result.state == "succeeded":
        return _Next(what="The job has succeeded: its result would be returned, nothing would start.")
    numbers = history.attempt_numbers(storage)
    if numbers and history.read_outcome(storage, numbers[-1]) is None:
        plan = Plan(hosts=history.read_plan(storage, numbers[-1]), commands=())
        what = f"Attempt {numbers[-1]} was sent already: it would be followed, or ended where its hosts are gone."
        return _Next(what=what, plan=plan)
    number = max(numbers, default=0) + 1
    restore = checkpoints.newest_whole(storage, below=number)
    return _new_attempt(job, Attempt(job=job, number=number, output=storage.url, restore=restore))


def _new_attempt(job: SliceJob, attempt: Attempt) -> _Next:
    """On the first offer that this machine or a cluster could give at all."""
    restore = attempt.restore
    backend = open_backend(job.backend)
    answers: dict[Offer, Refused] = {}
    offers = offers_of(job)
    for offer in offers:
        held, name = backend.imagine(attempt, offer), named(offer, offers)
        if not isinstance(held, Refused):
            start = "at the beginning" if restore is None else f"after step {restore.step} of attempt {restore.attempt}"
            plan = backend.plan(attempt, held)
            what = f"Attempt {attempt.number} would begin on {name}, {start}. {plan.hosts.stand_in}".rstrip()
            return _Next(what=what, plan=plan, refused=_by_name(answers, offers))
        answers[offer] = held
    what = "Nothing would start: no accelerator is to be had."
    return _Next(what=what, refused=_by_name(answers, offers), failure=_of_all(answers, offers))


def _by_name(answers: Mapping[Offer, Refused], offers: Sequence[Offer]) -> dict[str, str]:
    return {named(offer, offers): answer.reason for offer, answer in answers.items()}


def _of_all(answers: Mapping[Offer, Refused], offers: Sequence[Offer]) -> Failure | None:
    """As a job ends of which every offer was refused."""
    barred = {offer for offer, answer in answers.items() if answer.is_barred}
    chosen = choose(offers, {offer: answer.reason for offer, answer in answers.items()}, barred=barred)
    return chosen if isinstance(chosen, Failure) else None


def _sizes(payload: bytes | None) -> dict[str, int]:
    if payload is None:
        return {}
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        return {entry.filename: entry.file_size for entry in archive.infolist()}
