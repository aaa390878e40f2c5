"""Which candidate of a model is to be trained now: one that somebody began, a new one, or none?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prefect_tpu.infra import layout, staging, start_points
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.models.records import Became, Candidate, Entry
from prefect_tpu.infra.models.registry import Registry, Standing
from prefect_tpu.infra.models.watching import fingerprint
from prefect_tpu.infra.policy.retraining import DAY_SECONDS, JobIs, Seen, why_to_abandon, why_to_train
from prefect_tpu.infra.staging import STAGED
from prefect_tpu.infra.storage import open_storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody wants of a model that is trained again and again.

    model: its name.
    output: the folder of all jobs, below which the model lies too.
    data, held_out: name → file or folder, to train on and to judge by.
    watch: places whose content counts as data, though it is not staged: folders, also `gs://bucket/folder`.
    max_age: seconds after which it is too old; None where it never is.
    starts_warm: candidates start with the champion's weights.
    is_forced: it is trained whatever was seen.
    """

    model: str
    output: str
    data: Mapping[str, str]
    held_out: Mapping[str, str]
    watch: Sequence[str] = ()
    max_age: float | None = None
    starts_warm: bool = True
    is_forced: bool = False

    def __post_init__(self) -> None:
        if self.max_age is not None and not 0 < self.max_age < math.inf:
            raise UsageError(
                f"max_age_days is {self.max_age / DAY_SECONDS:g}: give a number above 0, or leave it out for never."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What lies there to learn from and to judge by: name or place → hash of its content."""

    data: dict[str, str]
    held_out: dict[str, str]
    watched: dict[str, str]

    @property
    def seen(self) -> dict[str, str]:
        """As `Candidate.seen`."""
        return {**self.data, **self.watched}


def find(wish: Wish) -> Found:
    """Stage the data, and look at what is only watched.

    Raises `UsageError` for what is not there or is no data.
    """
    judged_in = evaluations(wish)
    return Found(
        data={name: staging.stage(place, wish.output).sha256 for name, place in wish.data.items()},
        held_out={name: staging.stage(place, judged_in).sha256 for name, place in wish.held_out.items()},
        watched={place: fingerprint(place) for place in wish.watch},
    )


def evaluations(wish: Wish) -> str:
    """The folder of the jobs that judge the model."""
    return open_storage(wish.output).inside(layout.evaluations(wish.model)).url


def begin(registry: Registry, wish: Wish, found: Found, now: float) -> Candidate | None:
    """The candidate to bring to its end; None where nothing calls for one. now: seconds since the epoch."""
    registry.point()
    while True:
        standing = registry.look()
        if standing.open is None:
            return _begin_new(registry, standing, wish, found, now)
        job = job_is(wish.output, standing.open.job)
        why = why_to_abandon(job, standing.open.seen, found.seen) or _lost(wish, standing.open)
        if why is None:
            return standing.open
        close(registry, standing.open, Became.ABANDONED, why, now)


def _begin_new(registry: Registry, standing: Standing, wish: Wish, found: Found, now: float) -> Candidate | None:
    seen = Seen(
        now=found.seen,
        last=standing.judged.seen if standing.judged is not None else None,
        last_at=standing.judged.began if standing.judged is not None else None,
        champion_at=standing.champion.at if standing.champion is not None else None,
        max_age=wish.max_age,
        is_forced=wish.is_forced,
        at=now,
    )
    reason = why_to_train(seen)
    if reason is None:
        return None
    number = _free_number(registry, standing.newest + 1)
    candidate = Candidate(
        number=number,
        began=now,
        reason=reason,
        job=_job_name(registry, number),
        data=found.data,
        held_out=found.held_out,
        watched=found.watched,
        start_from=_start(standing) if wish.starts_warm else "",
        parent=standing.entry.champion if standing.entry is not None else None,
    )
    return registry.begin(candidate)


def _job_name(registry: Registry, number: int) -> str:
    return f"{registry.model}-{number}"


def _free_number(registry: Registry, number: int) -> int:
    """The first one, from a number on, whose job is nobody else's: of a sweep called like the model, perhaps.

    Where somebody begins the same candidate meanwhile, its job comes after its record: so it is not passed by.
    """
    while job_is(registry.output, _job_name(registry, number)) is not JobIs.ABSENT:
        if registry.has_candidate(number):
            break
        number += 1
    return number


def _start(standing: Standing) -> str:
    """The champion's weights; "" where there is none, or they are not whole any more."""
    made = standing.champion
    if made is None or made.tried is None or not start_points.is_usable(made.tried.checkpoint):
        return ""
    return made.tried.checkpoint


def _lost(wish: Wish, candidate: Candidate) -> str | None:
    """Why a candidate can never be brought to its end: somebody has deleted what it learns from, is judged by or starts
    with, and what lies at its source now is something else. None where all of it lies there.
    """
    wanted = [(name, sha256, wish.output) for name, sha256 in candidate.data.items()]
    wanted += [(name, sha256, evaluations(wish)) for name, sha256 in candidate.held_out.items()]
    lost = {name for name, sha256, output in wanted if not staging.is_staged(f"{STAGED}{sha256}", output)}
    if candidate.start_from and not start_points.is_usable(candidate.start_from, reads=False):
        lost.add("the weights to start with")
    return f"what it needs was deleted: {', '.join(sorted(lost))}" if lost else None


def job_is(output: str, job: str) -> JobIs:
    """How the training of a candidate stands, by its files."""
    storage = open_storage(output).inside(job)
    if history.read_job(storage) is None:
        return JobIs.ABSENT
    result = history.read_result(storage)
    if result is None:
        return JobIs.OPEN
    return JobIs.SUCCEEDED if result.state == "succeeded" else JobIs.FAILED


def close(registry: Registry, candidate: Candidate, became: Became, reason: str, now: float) -> Entry:
    """Write down what became of a candidate that does not change the champion, unless that was done before."""
    while True:
        standing = registry.look()
        if (before := registry.entry_of(candidate.number)) is not None:
            return before
        entry = unchanged(standing, candidate, became, reason, now)
        if registry.add(entry):
            return entry


def unchanged(standing: Standing, candidate: Candidate, became: Became, reason: str, now: float) -> Entry:
    """A record that leaves the champion as it is."""
    before = standing.entry
    return Entry(
        number=standing.next_number,
        became=became,
        candidate=candidate.number,
        reason=reason,
        at=now,
        champion=before.champion if before is not None else None,
        promoted_by=before.promoted_by if before is not None else None,
    )
