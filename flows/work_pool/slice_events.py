"""Which events tell of slices? For automations and the timeline: each once, whoever and however many send it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prefect.client.schemas.objects import FlowRun, WorkPool
from prefect.events import emit_event

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.state import HostPhase, JobState

PREFIX = "prefect-tpu.slice."
_IDS = uuid.UUID("0b0f1d5e-9c1c-5a3b-8a54-6f1f4a4d2a77")  # ours, and the same for ever: ids are made of it
_LOST = {
    FailureKind.PREEMPTED: "preempted",
    FailureKind.MAINTENANCE: "preempted",
    FailureKind.HOST_LOST: "lost",
    FailureKind.COULD_NOT_JOIN: "lost",
    FailureKind.UNKNOWN: "lost",
    FailureKind.STALLED: "stalled",
}
Related = list[dict[str, str]]
Payload = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to the slice of one attempt. name: after the prefix."""

    attempt: int
    name: str
    payload: Payload


def events_of(news: News) -> list[Event]:
    """What this news is for those who listen to events, in the order in which it happened."""
    if news.ended is not None:
        return _ended(news.ended)
    if not news.attempt:
        return []
    if news.observation is not None:
        has_begun = all(host.phase is not HostPhase.PENDING for host in news.observation.hosts)
        return [Event(attempt=news.attempt, name="started", payload={})] if has_begun else []
    is_sent = news.state is JobState.STARTING and news.waits_for is None
    return [Event(attempt=news.attempt, name="submitted", payload={"said": news.text})] if is_sent else []


def _ended(attempt: AttemptSummary) -> list[Event]:
    told: Payload = {
        "outcome": attempt.outcome,
        "accelerator": attempt.accelerator,
        "cluster": attempt.cluster,
        "zone": attempt.zone,
        "seconds": round((attempt.ended or attempt.started) - attempt.started, 1),
        "last_step": attempt.last_step,
        "saved_step": attempt.saved_step,
        **_cause(attempt.failure),
    }
    kind = attempt.failure.kind if attempt.failure is not None else None
    names = [*([_LOST[kind]] if kind in _LOST else []), "ended"]
    return [Event(attempt=attempt.number, name=name, payload=told) for name in names]


def _cause(cause: Failure | None) -> Payload:
    if cause is None:
        return {}
    return {"kind": cause.kind.value, "message": cause.message, "advice": cause.advice, "host": cause.host}


def event_id(folder: str, event: Event) -> uuid.UUID:
    """The same from each process, so that two workers that see the same are heard once."""
    return uuid.uuid5(_IDS, f"{folder} {event.attempt} {event.name}")


def related(run: FlowRun, pool: WorkPool) -> Related:
    """What an event of a run's slice belongs to, so that Prefect shows it there."""
    found = [_resource("flow-run", run.id, run.name), _resource("flow", run.flow_id)]
    if run.deployment_id is not None:
        found.append(_resource("deployment", run.deployment_id))
    return [*found, _resource("work-pool", pool.id, pool.name)]


def _resource(role: str, number: uuid.UUID, name: str | None = None) -> dict[str, str]:
    told = {"prefect.resource.id": f"prefect.{role}.{number}", "prefect.resource.role": role}
    return {**told, **({"prefect.resource.name": name} if name else {})}


class SliceEvents:
    """Sends the events of one job's slices. Never raises, and waits for nobody."""

    def __init__(self, job: str, folder: str, belongs_to: Related, emit: Callable[..., object] = emit_event) -> None:
        self._job, self._folder, self._belongs_to, self._emit = job, folder, belongs_to, emit
        self._sent: set[tuple[int, str]] = set()

    def hear(self, news: News) -> None:
        """Send what this news is."""
        for event in events_of(news):
            self.send(event)

    def send(self, event: Event) -> None:
        """Send it, unless this process has."""
        if (event.attempt, event.name) in self._sent:
            return
        self._sent.add((event.attempt, event.name))
        name = layout.attempt_name(self._job, event.attempt)
        self._emit(
            event=f"{PREFIX}{event.name}",
            resource={
                "prefect.resource.id": f"{PREFIX}{name}",
                "prefect.resource.name": name,
                "prefect-tpu.job": self._job,
                "prefect-tpu.attempt": str(event.attempt),
                "prefect-tpu.kind": str(event.payload.get("kind", "")),
            },
            related=self._belongs_to,
            payload={"job": self._job, "attempt": event.attempt, "folder": self._folder, **event.payload},
            id=event_id(self._folder, event),
        )
