"""The flow `retrain`: a model is trained again where that is due, and takes over where it is better."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Completed

from prefect_tpu.flows.form import Pods, Training
from prefect_tpu.flows.saved import completed
from prefect_tpu.flows.train import result_of, train
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.errors import Conflict, JobFailed, PrefectTpuError
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.models import beginning, judging
from prefect_tpu.infra.models.beginning import Wish
from prefect_tpu.infra.models.judging import Rule
from prefect_tpu.infra.models.records import Became, Candidate, Entry, Version
from prefect_tpu.infra.models.registry import Registry
from prefect_tpu.infra.pods import in_pods
from prefect_tpu.infra.policy.retraining import DAY_SECONDS, PROGRAMS_FAULT, Mode
from prefect_tpu.infra.request import default_output
from prefect_tpu.infra.staging import STAGED
from prefect_tpu.tasks.approval import approval
from prefect_tpu.tasks.begin_candidate import begin_candidate
from prefect_tpu.tasks.failing import failed, value_of
from prefect_tpu.tasks.promote_model import promote_model

NAMES = {
    Became.PROMOTED: "Promoted",
    Became.KEPT: "Kept",
    Became.DECLINED: "Declined",
}


@flow(name="retrain", description="Train a model again where that is due, and promote it where it is better.")
def retrain(
    model: str,
    program: str,
    evaluate: str,
    metric: str = "loss",
    mode: Literal["min", "max"] = "min",
    min_improvement: float = 0.0,
    accelerator: str = "cpu",
    params: dict[str, Any] = {},  # noqa: B006 -- never changed; None would cost the form a switch per field
    data: dict[str, str] = {},  # noqa: B006
    held_out: dict[str, str] = {},  # noqa: B006
    watch: list[str] = [],  # noqa: B006
    max_age_days: float | None = None,
    warm_start: bool = True,
    force: bool = False,
    approval_hours: float = 0.0,
    evaluate_accelerator: str = "",
    evaluate_params: dict[str, Any] = {},  # noqa: B006
    output: str = "",
    training: Training = Training(),  # noqa: B008 -- frozen by use: the form shows its fields
    backend: str = "",
    image: str = "",
    cluster: str = "",
    pods: Pods = Pods(),  # noqa: B008
) -> dict[str, Any] | State[Any]:
    """Train a model again if its data changed or it is too old, and promote what came of it if it is better.

    Run it as often as you like: where nothing changed, nothing is trained. Killed anywhere and run again, it goes on
    where it was. Two runs for one model train it once.

    Args:
        model: Its name, after which its jobs are called: `<model>-1` and so on.
        program: What trains it, as in `train`.
        evaluate: What judges it: a program that restores a checkpoint and returns a dictionary of numbers. It is run
            for the candidate and for the champion, on the same data.
        metric: The number that counts.
        mode: Whether less of it is better, or more.
        min_improvement: How much better than the champion a candidate must be.
        accelerator: The slice that it is trained on.
        params: Keyword arguments of the program.
        data: Name → file or folder, to train on. A candidate is begun where its content changed.
        held_out: Name → file or folder, to judge by.
        watch: Places such as `gs://bucket/folder`, whose content counts as data too, though it is not copied.
        max_age_days: Days after which it is trained again though nothing changed. Empty: never.
        warm_start: Start with the champion's weights.
        force: Train it whatever was seen.
        approval_hours: Ask a person before a slice is asked for, and wait for so long. 0: do not ask.
        evaluate_accelerator: The slice that it is judged on. Empty: as it is trained on.
        evaluate_params: Keyword arguments of `evaluate`.
        output: Folder of all jobs, where the model's history lies too.
        training: What else `train` takes.
        backend: As in `train`.
        image: As in `train`.
        cluster: As in `train`.
        pods: As in `train`.

    Returns:
        `model decision reason candidate champion checkpoint metrics rival`; the run's state says the same in words.

    Raises:
        UsageError: the call cannot be carried out; the message says what to change.
        JobFailed: a job ended without its result. Where that was the program's fault, the candidate is given up.
    """
    try:
        said, saved_output = completed({"image": image, "cluster": cluster, **pods.model_dump(exclude_defaults=True)})
        chosen = in_pods(backend, said).get("backend", "local")
        wish = Wish(
            model=model,
            output=output or saved_output or default_output(chosen),
            data=data,
            held_out=held_out,
            watch=watch,
            max_age=None if max_age_days is None else max_age_days * DAY_SECONDS,
            starts_warm=warm_start,
            is_forced=force,
        )
        asked = Asked(
            wish=wish,
            rule=Rule(
                program=evaluate, params=evaluate_params, metric=metric, mode=Mode(mode),
                min_improvement=min_improvement,
            ),
            program=program,
            params=params,
            accelerator=accelerator,
            judged_on=evaluate_accelerator or accelerator,
            approval_seconds=approval_hours * 3600,
            options={**training.given(), "backend": backend, "image": image, "cluster": cluster, "pods": pods},
        )  # fmt: skip
        return _carry_out(asked)
    except PrefectTpuError as exc:
        return failed(exc)


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


def _carry_out(asked: Asked) -> dict[str, Any] | State[Any]:
    registry = Registry(asked.wish.output, asked.wish.model)
    asked.rule.mark  # noqa: B018 -- a judge that is not there is found out before anything is trained
    while (candidate := value_of(begin_candidate(asked.wish))) is not None:
        try:
            entry = _brought_to_its_end(registry, asked, candidate)
        except Stopped as exc:
            return Cancelled(message=f"{exc}; run it again to go on.")
        if entry.became is not Became.ABANDONED:  # else another one takes its place
            return _said(registry, entry)
    return _skipped(registry)


def _brought_to_its_end(registry: Registry, asked: Asked, candidate: Candidate) -> Entry:
    """What became of a candidate."""
    if (before := registry.entry_of(candidate.number)) is not None:
        return before
    if asked.approval_seconds and (no := _declined(registry, asked, candidate)) is not None:
        return no
    if (given_up := _train(registry, asked, candidate)) is not None:
        return given_up
    place = judging.place_of(asked.wish.output, candidate.job)
    version = judging.version_of(
        candidate, asked.wish.output, asked.rule, _measured(asked, candidate, candidate.number, place)
    )
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
    return judging.numbers_of(result.value, asked.rule, name)


def _job(flow_run_name: str, **parameters: Any) -> JobResult:
    """One run of the flow `train` to its end, as a part of this one."""
    state = train.with_options(flow_run_name=flow_run_name)(**parameters, return_state=True)
    if state.is_cancelled():
        raise Stopped(state.message or "A job was stopped")
    return result_of(state)


def _staged(data: Mapping[str, str]) -> dict[str, str]:
    return {name: f"{STAGED}{sha256}" for name, sha256 in data.items()}


def _skipped(registry: Registry) -> State[Any]:
    champion = registry.champion()
    version = champion.number if champion is not None else None
    said = {"model": registry.model, "decision": "skipped", "reason": "nothing changed", "champion": version}
    return Completed(name="Skipped", message="Nothing changed: nothing was trained.", data=said)


def _said(registry: Registry, entry: Entry) -> dict[str, Any] | State[Any]:
    version, champion = entry.tried, registry.champion()
    said = {
        "model": registry.model,
        "decision": entry.became.value,
        "reason": entry.reason,
        "candidate": entry.candidate,
        "champion": entry.champion,
        "checkpoint": champion.checkpoint if champion is not None else "",
        "metrics": version.metrics if version is not None else {},
        "rival": entry.rival,
    }
    name = NAMES.get(entry.became, "Completed")
    return Completed(name=name, message=f"Candidate {entry.candidate}: {entry.reason}.", data=said)
