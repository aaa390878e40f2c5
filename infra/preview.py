"""What would be sent if this were asked for now? Found out without writing or starting anything."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass

from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.backends.base import Attempt, Plan, Refused
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher import checkpoints, history
from prefect_tpu.infra.policy.offers import named, offers_of
from prefect_tpu.infra.request import Request, imagine, imagine_unseen, job_folder
from prefect_tpu.infra.storage import BUCKET, Storage, open_storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A job before it runs.

    what: what would happen, as a sentence.
    plan: of the attempt that would begin or be followed; None where none would.
    offers: all that would be asked in turn, by name, first the one that is liked best.
    refused: offer → why it is not to be had here.
    payload: name → bytes of each file that travels; compressed: bytes of the whole.
    """

    job: SliceJob
    what: str
    plan: Plan | None
    offers: tuple[str, ...]
    refused: Mapping[str, str]
    payload: Mapping[str, int]
    compressed: int


def preview(request: Request) -> Preview:
    """Raises `UsageError` for whatever `run` would refuse, as far as it can be known here."""
    folder = job_folder(request.output, request.name)
    try:
        job, packed = imagine(request)
        what, plan, refused = _next(job, open_storage(folder))
    except PlatformError as exc:
        if not folder.startswith(BUCKET):
            raise
        job, packed = imagine_unseen(request)
        what, plan, refused = _new_attempt(job, Attempt(job=job, number=1, output=folder))
        what = f"{what} This is a guess, for a job whose name is new: what lies in its output cannot be seen. {exc}"
    offers = offers_of(job)
    return Preview(
        job=job,
        what=what,
        plan=plan,
        offers=tuple(named(offer, offers) for offer in offers),
        refused=refused,
        payload=_sizes(packed.payload),
        compressed=len(packed.payload or b""),
    )


def _next(job: SliceJob, storage: Storage) -> tuple[str, Plan | None, Mapping[str, str]]:
    result = history.read_result(storage)
    if result is not None and result.state == "succeeded":
        return "The job has succeeded: its result would be returned, nothing would start.", None, {}
    numbers = history.attempt_numbers(storage)
    if numbers and history.read_outcome(storage, numbers[-1]) is None:
        plan = Plan(hosts=history.read_plan(storage, numbers[-1]), commands=())
        return (
            f"Attempt {numbers[-1]} was sent already: it would be followed, or ended where its hosts are gone.",
            plan,
            {},
        )
    number = max(numbers, default=0) + 1
    restore = checkpoints.newest_whole(storage, below=number)
    return _new_attempt(job, Attempt(job=job, number=number, output=storage.url, restore=restore))


def _new_attempt(job: SliceJob, attempt: Attempt) -> tuple[str, Plan | None, Mapping[str, str]]:
    """On the first offer that this machine or a cluster could give at all."""
    restore = attempt.restore
    backend = open_backend(job.backend)
    refused: dict[str, str] = {}
    offers = offers_of(job)
    for offer in offers:
        held, name = backend.imagine(attempt, offer), named(offer, offers)
        if not isinstance(held, Refused):
            start = "at the beginning" if restore is None else f"after step {restore.step} of attempt {restore.attempt}"
            plan = backend.plan(attempt, held)
            what = f"Attempt {attempt.number} would begin on {name}, {start}. {plan.hosts.stand_in}".rstrip()
            return what, plan, refused
        refused[name] = held.reason
    return "Nothing would start: no accelerator is to be had.", None, refused


def _sizes(payload: bytes | None) -> dict[str, int]:
    if payload is None:
        return {}
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        return {entry.filename: entry.file_size for entry in archive.infolist()}
