"""The flow `retrain`: a model is trained again where that is due, and takes over where it is better."""

from __future__ import annotations

from typing import Any, Literal

from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Completed

from prefect_tpu.flows.candidate import Asked, Stopped, bring_to_its_end
from prefect_tpu.flows.form import Pods, Training
from prefect_tpu.flows.installed_flow import installed_flow
from prefect_tpu.flows.saved import placed
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.models.beginning import Wish
from prefect_tpu.infra.models.judging import Rule
from prefect_tpu.infra.models.records import Became, Entry
from prefect_tpu.infra.models.registry import Registry
from prefect_tpu.infra.policy.retraining import DAY_SECONDS, Mode
from prefect_tpu.tasks import model_events
from prefect_tpu.tasks.begin_candidate import begin_candidate
from prefect_tpu.tasks.failing import failed, value_of

NAMES = {
    Became.PROMOTED: "Promoted",
    Became.KEPT: "Kept",
    Became.DECLINED: "Declined",
}


@installed_flow(name="retrain", description="Train a model again where that is due, and promote it where it is better.")
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
        watch: Folders, files or `gs://bucket/folder`, whose content counts as data too, though it is not copied.
        max_age_days: Days after which it is trained again though nothing changed. Empty: never.
        warm_start: Start with the champion's weights.
        force: Train it whatever was seen.
        approval_hours: Ask a person before a slice is asked for, and wait for so long. 0: do not ask.
        evaluate_accelerator: One slice that it is judged on. Empty: as it is trained on.
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
        where = placed(backend, pods.said(image, cluster), output)
        wish = Wish(
            model=model, output=where.output, data=data, held_out=held_out, watch=watch,
            max_age=None if max_age_days is None else max_age_days * DAY_SECONDS,
            starts_warm=warm_start, is_forced=force,
        )  # fmt: skip
        rule = Rule(
            program=evaluate, params=evaluate_params, metric=metric, mode=Mode(mode), min_improvement=min_improvement
        )
        options = {**training.given(), "backend": backend, "image": image, "cluster": cluster, "pods": pods}
        return _carry_out(Asked(
            wish=wish, rule=rule, program=program, params=params, accelerator=accelerator,
            judged_on=evaluate_accelerator, approval_hours=approval_hours, options=options,
        ))  # fmt: skip
    except PrefectTpuError as exc:
        return failed(exc)


def _carry_out(asked: Asked) -> dict[str, Any] | State[Any]:
    registry = Registry(asked.wish.output, asked.wish.model)
    asked.rule.mark  # noqa: B018 -- a judge that is not there is found out before anything is trained
    model_events.tell_missed(registry)
    while (candidate := value_of(begin_candidate(asked.wish))) is not None:
        try:
            entry = bring_to_its_end(registry, asked, candidate)
        except Stopped as exc:
            return Cancelled(message=f"{exc}; run it again to go on.")
        if entry.became is not Became.ABANDONED:  # else another one takes its place
            return _said(registry, entry)
    return _skipped(registry)


def _skipped(registry: Registry) -> State[Any]:
    champion = registry.champion()
    version = champion.number if champion is not None else None
    said = {"model": registry.model, "decision": "skipped", "reason": "nothing changed", "champion": version}
    return Completed(name="Skipped", message="Nothing changed: nothing was trained.", data=said)


def _said(registry: Registry, entry: Entry) -> dict[str, Any] | State[Any]:
    model_events.tell(registry, entry)
    version, champion = entry.tried, registry.point()  # whoever wrote the record may be about to
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
