"""What is done for one candidate of a model: somebody is asked, it is trained, judged, and promoted or not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefect_tpu.flows.train import result_of, train
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.errors import Conflict, JobFailed
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.models import beginning, judging
from prefect_tpu.infra.models.beginning import Wish
from prefect_tpu.infra.models.judging import Rule
from prefect_tpu.infra.models.records import Became, Candidate, Entry, Version
from prefect_tpu.infra.models.registry import Registry
from prefect_tpu.infra.policy.retraining import PROGRAMS_FAULT
from prefect_tpu.infra.staging import STAGED
from prefect_tpu.tasks.approval import approval
from prefect_tpu.tasks.failing import value_of
from prefect_tpu.tasks.promote_model import promote_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One retraining as it was asked for. options: further parameters of the flow `train`."""

    wish: Wish
    rule: Rule
    program: str
    params: Mapping[str, Any]
    accelerator: str
    judged_on: str
    approval_seconds: float
    options: Mapping[str, Any]


class Stopped(Exception):
    """Somebody stopped a job of this run."""


def bring_to_its_end(registry: Registry, asked: Asked, candidate: Candidate) -> Entry:
    """What became of a candidate: it is trained, judged beside the champion, and promoted where it is better.

    Raises:
        Stopped: somebody has stopped a job of it; it stays open.
        JobFailed: a job ended without its result. Where that was the program's fault, it is written down.
    """
    if (before := registry.entry_of(candidate.number)) is not None:
        return before
    if asked.approval_seconds and (no := _declined(registry, asked, candidate)) is not None:
        return no
    if (given_up := _train(registry, asked, candidate)) is not None:
        return given_up
    place = judging.place_of(asked.wish.output, candidate.job)
    measured = _measured(asked, candidate, candidate.number, place)
    version = judging.version_of(candidate, asked.wish.output, place, asked.rule, measured)
    while True:  # once more for each record that somebody else writes meanwhile
        standing = registry.look()
        if (before := registry.entry_of(candidate.number)) is not None:
            return before
        rival = _of_champion(asked, candidate, standing.champion.tried if standing.champion is not None else None)
        entry = value_of(promote_model(registry, standing, candidate, version, rival, asked.rule))
        if entry is not None:
            return entry


def _declined(registry: Registry, asked: Asked, candidate: Candidate) -> Entry | None:
    chips = resolve(asked.accelerator).chips * asked.options.get("slices", 1)
    what = f"train candidate {candidate.number} of model {registry.model} on {asked.accelerator} ({chips} chips)"
    said = approval(registry, candidate, what, asked.approval_seconds)
    if said.approved:
        return None
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
        why = f"it was begun with another program or other parameters ({exc})"
        return beginning.close(registry, candidate, Became.ABANDONED, why, time.time())
    except JobFailed as exc:
        if exc.failure.kind in PROGRAMS_FAULT:
            beginning.close(registry, candidate, Became.FAILED, str(exc.failure), time.time())
        raise
    return None


def _of_champion(asked: Asked, candidate: Candidate, champion: Version | None) -> dict[str, float] | None:
    """What the judge measures of the champion on the candidate's data; None where there is none any more."""
    if champion is None or not judging.is_there(champion):
        return None
    return _measured(asked, candidate, champion.number, champion.checkpoint)


def _measured(asked: Asked, candidate: Candidate, version: int, place: str) -> dict[str, float]:
    name = judging.evaluation(candidate.number, version, asked.rule)
    result = _job(
        f"evaluate {asked.wish.model} version {version}",
        program=asked.rule.program,
        accelerator=asked.judged_on,
        params=dict(asked.rule.params),
        data=_staged(candidate.held_out),
        name=name,
        output=beginning.evaluations(asked.wish),
        start_from=place,
        **{key: value for key, value in asked.options.items() if key not in ("drills", "fallback_accelerators")},
    )
    return judging.numbers_of(result, asked.rule)


def _job(flow_run_name: str, **parameters: Any) -> JobResult:
    """One run of the flow `train` to its end, as a part of this one."""
    state = train.with_options(flow_run_name=flow_run_name)(**parameters, return_state=True)
    if state.is_cancelled():
        raise Stopped(state.message or "A job was stopped")
    return result_of(state)


def _staged(data: Mapping[str, str]) -> dict[str, str]:
    return {name: f"{STAGED}{sha256}" for name, sha256 in data.items()}
