"""What is done for one candidate of a model: somebody is asked, it is trained, judged, and promoted or not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefect_tpu.flows.train import result_of, train
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.errors import Conflict, JobFailed, UsageError
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.launcher.driven import is_driven
from prefect_tpu.infra.launcher.left_behind import end_left_behind
from prefect_tpu.infra.models import beginning, judging
from prefect_tpu.infra.models.beginning import Wish
from prefect_tpu.infra.models.judging import Rule
from prefect_tpu.infra.models.records import Became, Candidate, Entry, Version
from prefect_tpu.infra.models.registry import Registry
from prefect_tpu.infra.policy.retraining import PROGRAMS_FAULT, JobIs
from prefect_tpu.infra.staging import STAGED
from prefect_tpu.infra.start_points import is_usable
from prefect_tpu.infra.storage import open_storage
from prefect_tpu.tasks import model_events
from prefect_tpu.tasks.approval import approval
from prefect_tpu.tasks.chip_limits import ChipLimits
from prefect_tpu.tasks.failing import value_of
from prefect_tpu.tasks.promote_model import promote_model

HOUR_SECONDS = 3600.0
LONGEST_APPROVAL_HOURS = 8_784.0  # a year; a server keeps no moment that is further away than its calendar reaches
# Of training alone: a judge has nothing to rehearse; on a slice of its own it takes one, and no other.
NOT_OF_JUDGES = frozenset({"drills"})
NOT_OF_OTHER_SLICES = frozenset({"drills", "fallback_accelerators", "slices", "mesh"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One retraining as it was asked for.

    judged_on: the slice of the judge; "" where that is judged on what it was trained on.
    approval_hours: how long a person is waited for; 0 where none is asked.
    options: further parameters of the flow `train`.
    """

    wish: Wish
    rule: Rule
    program: str
    params: Mapping[str, Any]
    accelerator: str
    judged_on: str
    approval_hours: float
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Raises `UsageError` for what would only be found out once something was paid for."""
        if not 0 <= self.approval_hours <= LONGEST_APPROVAL_HOURS:  # nor does NaN
            raise UsageError(
                f"approval_hours is {self.approval_hours}: give a number from 0 to {LONGEST_APPROVAL_HOURS:.0f}."
            )
        for name in filter(None, (self.accelerator, self.judged_on)):
            resolve(name)

    @property
    def of_judges(self) -> dict[str, Any]:
        """Parameters of the flow `train` where that judges."""
        left_out = NOT_OF_OTHER_SLICES if self.judged_on else NOT_OF_JUDGES
        options = {name: value for name, value in self.options.items() if name not in left_out}
        return {"accelerator": self.judged_on or self.accelerator, **options}


class Stopped(Exception):
    """Somebody stopped a job of this run, or the run itself."""


def bring_to_its_end(registry: Registry, asked: Asked, candidate: Candidate) -> Entry:
    """What became of a candidate: it is trained, judged beside the champion, and promoted where it is better.

    Raises:
        Stopped: somebody has stopped a job of it; it stays open.
        Conflict: somebody else trains it now, and was asked for it differently.
        JobFailed: a job ended without its result. Where that was the program's fault, it is written down.
    """
    if (before := registry.entry_of(candidate.number)) is not None:
        return before
    if (no := _declined(registry, asked, candidate)) is not None:
        return no
    if (given_up := _train(registry, asked, candidate)) is not None:
        return given_up
    place = judging.place_of(asked.wish.output, candidate.job)
    while True:  # once more for each record that somebody else writes meanwhile
        standing = registry.look()
        if (before := registry.entry_of(candidate.number)) is not None:
            return before
        champion = standing.champion.tried if standing.champion is not None else None
        measured, rival = _both(asked, candidate, place, champion)
        version = judging.version_of(candidate, asked.wish.output, place, asked.rule, measured)
        entry = value_of(promote_model(registry, standing, candidate, version, rival, asked.rule))
        if entry is not None:
            return entry


def _declined(registry: Registry, asked: Asked, candidate: Candidate) -> Entry | None:
    """The end of a candidate that somebody does not want trained, or that came while somebody was asked."""
    is_trained = beginning.job_is(asked.wish.output, candidate.job) is JobIs.SUCCEEDED
    if is_trained or not asked.approval_hours:
        return None
    chips = resolve(asked.accelerator).chips * asked.options.get("slices", 1)
    what = f"train candidate {candidate.number} of model {registry.model} on {asked.accelerator} ({chips} chips)"
    said = approval(registry, candidate, what, asked.approval_hours * HOUR_SECONDS)
    if said is None:
        raise Stopped("This run was cancelled while somebody was asked")
    if said.approved:
        return registry.entry_of(candidate.number)
    return beginning.close(registry, candidate, Became.DECLINED, said.reason or "somebody declined", time.time())


def _train(registry: Registry, asked: Asked, candidate: Candidate) -> Entry | None:
    """Until its job has succeeded. What can never succeed is written down as the candidate's end, and returned where
    another candidate may take its place.
    """
    try:
        _job(
            f"train {candidate.job}",
            program=asked.program,
            accelerator=asked.accelerator,
            params=dict(asked.params),
            data=_staged(candidate.data),
            name=candidate.job,
            output=asked.wish.output,
            start_from=candidate.start_from,
            **asked.options,
        )
    except Conflict as exc:
        if _is_stopped_for(registry, candidate, exc):  # once it has an end, it goes on with other settings
            return _train(registry, asked, candidate)
        why = f"it was begun with another program or other parameters ({exc})"
        return beginning.close(registry, candidate, Became.ABANDONED, why, time.time())
    except JobFailed as exc:
        if exc.failure.kind in PROGRAMS_FAULT:
            ended = beginning.close(registry, candidate, Became.FAILED, str(exc.failure), time.time())
            model_events.tell(registry, ended)
        raise
    return None


def _is_stopped_for(registry: Registry, candidate: Candidate, conflict: Conflict) -> bool:
    """Whether the job of a candidate had to be stopped, because a run that is gone had asked for it differently. Of two
    runs that live, and want different things, the second one gives way: else each would give up what the other one
    trains, for ever.
    """
    job = open_storage(registry.output).inside(candidate.job)
    if is_driven(job):
        raise Conflict(
            f"Candidate {candidate.number} of model {registry.model!r} is trained by another run now, which was asked"
            " for it differently. Wait for its end, or stop it (prefect-tpu stop"
            f" {candidate.job} --output {registry.output}); then run this one again. ({conflict})"
        ) from conflict
    return end_left_behind(job, "another run wants it otherwise", ChipLimits())


def _both(
    asked: Asked, candidate: Candidate, place: str, champion: Version | None
) -> tuple[dict[str, float], dict[str, float] | None]:
    """What one judge measures of the candidate and of the champion; of the latter None where there is none any more.

    place: of the candidate's model.
    """
    while True:
        mark = asked.rule.mark
        measured = _measured(asked, candidate, candidate.number, place)
        rival = _of_champion(asked, candidate, champion)
        if asked.rule.mark == mark:  # else its code was changed meanwhile: numbers of two judges say nothing
            return measured, rival


def _of_champion(asked: Asked, candidate: Candidate, champion: Version | None) -> dict[str, float] | None:
    """What the judge measures of the champion on the candidate's data; None where there is none any more."""
    if champion is None or not is_usable(champion.checkpoint):
        return None
    try:
        return _measured(asked, candidate, champion.number, champion.checkpoint)
    except JobFailed as exc:
        exc.add_note(
            f"This was the champion of model {asked.wish.model!r}, version {champion.number}; the candidate was judged"
            f" before it. If {asked.rule.program} cannot use such old weights any more, let it return"
            f" {{{asked.rule.metric!r}: float('nan')}} for them: then the candidate takes over."
        )
        raise


def _measured(asked: Asked, candidate: Candidate, version: int, place: str) -> dict[str, float]:
    output = beginning.evaluations(asked.wish)
    for name in judging.evaluations_to_try(output, candidate.number, version, asked.rule):
        try:
            result = _job(
                f"evaluate {asked.wish.model} version {version}",
                program=asked.rule.program,
                params=dict(asked.rule.params),
                data=_staged(candidate.held_out),
                name=name,
                output=output,
                start_from=place,
                **asked.of_judges,
            )
        except Conflict:  # a run that was killed has asked for another slice or image: this one asks by itself
            job = open_storage(output).inside(name)
            if not is_driven(job):
                end_left_behind(job, "another one judges in its place", ChipLimits())
            continue
        return judging.numbers_of(result, asked.rule)
    raise AssertionError("there is always another name")


def _job(flow_run_name: str, **parameters: Any) -> JobResult:
    """One run of the flow `train` to its end, as a part of this one."""
    while True:
        state = train.with_options(flow_run_name=flow_run_name)(**parameters, return_state=True)
        if state.is_cancelled():
            raise Stopped(state.message or "A job was stopped")
        result = result_of(state)
        if result.job == parameters["name"]:
            return result
        # Else this run is repeated by Prefect, which gives it what its parts returned before, by their order alone.


def _staged(data: Mapping[str, str]) -> dict[str, str]:
    return {name: f"{STAGED}{sha256}" for name, sha256 in data.items()}
