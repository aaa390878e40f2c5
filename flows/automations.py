"""Which automations are ready-made, and what does each do? Pure: what is given in, Prefect's definition out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from prefect.automations import (
    AutomationCore,
    CancelFlowRun,
    EventTrigger,
    PauseWorkPool,
    Posture,
    RunDeployment,
    SendNotification,
)

from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.tasks.slice_events import PREFIX, Name

TITLE = "prefect-tpu: "  # what the names begin with on the server, so that nobody's own is taken for one of these
ID, ROLE = "prefect.resource.id", "prefect.resource.role"


class Ready(StrEnum):
    """What the command line calls them."""

    TELL = "tell-on-preemption"
    CANCEL = "cancel-on-stall"
    EVALUATE = "evaluate-after-training"
    PAUSE = "pause-without-quota"


DOES = {
    Ready.TELL: "Sends a notification when a slice is preempted.",
    Ready.CANCEL: "Cancels the run of a slice on which no host made a step for too long.",
    Ready.EVALUATE: "Runs a deployment on what a job has left when it has finished.",
    Ready.PAUSE: "Pauses the work pool of a run that has no quota for its slice.",
}
NEEDS = {
    Ready.TELL: "--block TYPE/NAME: a block that notifies, such as slack-webhook/alerts. In Python,"
    " prefect.blocks.notifications.SlackWebhook(url=…).save('alerts') makes it",
    Ready.EVALUATE: "--deployment FLOW/NAME: what it runs, with a parameter `output`, the folder of the job",
}
# What the deployment is told, where it has parameters of these names; it must have the first.
PARAMETERS = {
    "output": "{{ event.payload.folder }}",
    "job": "{{ event.payload.job }}",
    "attempt": "{{ event.payload.attempt }}",
}
_SUBJECT = "Job {{ event.payload.job }} was preempted"
_BODY = (
    "Attempt {{ event.payload.attempt }} on {{ event.payload.accelerator }} lost its slice."
    " {{ event.payload.message }} {{ event.payload.advice }}\nFlow run: {{ flow_run.name }}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A work pool on the server."""

    id: UUID
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The deployment that evaluates. parameters: what its flow takes."""

    id: UUID
    name: str
    parameters: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What automations are made of; None where nobody said it.

    block: the id of what notifies.
    pool: the only one whose runs count, and the one that is paused.
    evaluation: what is run after a training.
    """

    block: UUID | None = None
    pool: Pool | None = None
    evaluation: Evaluation | None = None


def title(ready: Ready, pool: str | None) -> str:
    """The name on the server: one for each pool that has its own, and one for all."""
    return f"{TITLE}{ready.replace('-', ' ')}{f' ({pool})' if pool else ''}"


def parsed(name: str) -> tuple[Ready, str | None] | None:
    """Which one has this name on the server, and of which pool; None where it is somebody else's."""
    for ready in Ready:
        own, _, rest = name.partition(" (")
        if own == title(ready, None) and (not rest or rest.endswith(")")):
            return ready, rest[:-1] or None
    return None


def is_lacking(ready: Ready, given: Given) -> bool:
    """Whether it cannot be made of that: `NEEDS` says of what else."""
    return (ready is Ready.TELL and given.block is None) or (ready is Ready.EVALUATE and given.evaluation is None)


def made(ready: Ready, given: Given) -> AutomationCore:
    """The automation as Prefect keeps it. Nothing that it needs may be lacking."""
    return AutomationCore(
        name=title(ready, given.pool.name if given.pool else None),
        description=DOES[ready],
        trigger=_trigger(ready, given),
        actions=[_action(ready, given)],
    )


def told(takes: Iterable[str]) -> dict[str, str]:
    """What a flow that takes these parameters is told of a job."""
    return {name: template for name, template in PARAMETERS.items() if name in set(takes)}


def _trigger(ready: Ready, given: Given) -> EventTrigger:
    """By each attempt alone: of two that happen at once Prefect would take the one that it hears later for too old."""
    event, match = _event(ready, given)
    return EventTrigger(
        expect={f"{PREFIX}{event}"},
        match={ID: f"{PREFIX}*", **match},
        match_related=_pool(ready, given),
        for_each={ID},
        posture=Posture.Reactive,
        threshold=1,
    )


def _event(ready: Ready, given: Given) -> tuple[Name, dict[str, Any]]:
    """The event, and which labels its resource has."""
    match ready:
        case Ready.TELL:
            return Name.PREEMPTED, {}
        case Ready.CANCEL:
            return Name.STALLED, {}
        case Ready.EVALUATE:  # which may run on a slice too, and would begin itself again and again
            assert given.evaluation is not None, "asked by `is_lacking`"
            return Name.FINISHED, {"prefect-tpu.deployment": f"!{given.evaluation.id}"}
        case Ready.PAUSE:
            return Name.FAILED, {"prefect-tpu.kind": FailureKind.NO_QUOTA.value}


def _pool(ready: Ready, given: Given) -> dict[str, Any]:
    """Whose runs count. A pool is only paused unnamed where all its runs ask for slices."""
    if given.pool is not None:
        return {ROLE: "work-pool", ID: f"prefect.work-pool.{given.pool.id}"}
    return {ROLE: "work-pool", "prefect.work-pool.type": "tpu-slice"} if ready is Ready.PAUSE else {}


def _action(ready: Ready, given: Given) -> SendNotification | CancelFlowRun | RunDeployment | PauseWorkPool:
    match ready:
        case Ready.TELL:
            assert given.block is not None, "asked by `is_lacking`"
            return SendNotification(block_document_id=given.block, subject=_SUBJECT, body=_BODY)
        case Ready.CANCEL:
            return CancelFlowRun()
        case Ready.EVALUATE:
            assert given.evaluation is not None, "asked by `is_lacking`"
            parameters = told(given.evaluation.parameters)
            return RunDeployment(source="selected", deployment_id=given.evaluation.id, parameters=parameters)
        case Ready.PAUSE if given.pool is not None:
            return PauseWorkPool(source="selected", work_pool_id=given.pool.id)
        case Ready.PAUSE:
            return PauseWorkPool(source="inferred")
