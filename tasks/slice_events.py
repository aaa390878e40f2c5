"""Which events tell of slices? For automations and the timeline: each once, whoever and however many send it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from prefect.events import emit_event

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.job import AttemptSummary, JobResult
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.state import HostPhase, JobState, Observation, WaitFor
from prefect_tpu.tasks.belonging import Related, deployment_of

log = logging.getLogger(__name__)
PREFIX = "prefect-tpu.slice."
MOST_SAID = 1_000  # characters of each text: a program's error may be as long as it likes
_IDS = uuid.UUID("0b0f1d5e-9c1c-5a3b-8a54-6f1f4a4d2a77")  # ours, and the same for ever: ids are made of it
Payload = dict[str, Any]


class Name(StrEnum):
    """What an event says, after the prefix; of one attempt each at most once."""

    QUEUED = "queued"  # it waits for capacity, for quota or for its turn
    PROVISIONED = "provisioned"  # it has a slice
    STARTED = "started"  # all its hosts run
    PREEMPTED = "preempted"  # the platform took hosts away, with notice or for service
    LOST = "lost"  # a host was lost without notice
    STALLED = "stalled"  # no host made a step for so long that it was ended
    RESTARTED = "restarted"  # it has ended, and another attempt follows
    FINISHED = "finished"  # it brought its job to a good end
    FAILED = "failed"  # its job ended without the result


_WITHOUT_SLICE = (WaitFor.TURN, WaitFor.QUOTA, WaitFor.SLICE)
_LOSSES = {
    FailureKind.PREEMPTED: Name.PREEMPTED,
    FailureKind.MAINTENANCE: Name.PREEMPTED,
    FailureKind.HOST_LOST: Name.LOST,
    FailureKind.COULD_NOT_JOIN: Name.LOST,
    FailureKind.UNKNOWN: Name.LOST,
    FailureKind.STALLED: Name.STALLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to one attempt, or to its job.

    attempt: its number; 0 where the job ended before it had any.
    end: tells two of one name apart where no attempt does: which end of the job it was.
    """

    attempt: int
    name: Name
    payload: Payload
    end: str = ""


def events_of(news: News, sent: str = "") -> list[Event]:
    """What this news is for those who listen to events, in the order in which it happened.

    sent: what was said of the attempt when it was sent: on which slice, and from which step.
    """
    if news.ended is not None:
        return _ended(news.ended, goes_on=news.state is JobState.BACKING_OFF)
    if not news.attempt:
        return []
    if news.observation is not None:
        return _seen(news.observation, sent)
    if news.waits_for is None or news.waits_for not in _WITHOUT_SLICE:
        return []
    why: Payload = {"reason": _cut(news.text or ""), "waits_for": news.waits_for.value}
    return [Event(attempt=news.attempt, name=Name.QUEUED, payload=why)]


def _seen(seen: Observation, sent: str) -> list[Event]:
    """A slice comes as a whole: where one of its machines works for the attempt, the others are there too."""
    begun = [host.phase is not HostPhase.PENDING for host in seen.hosts]
    fetches = seen.waiting is not None and seen.waiting.what is WaitFor.IMAGE
    names = [*([Name.PROVISIONED] if any(begun) or fetches else []), *([Name.STARTED] if all(begun) else [])]
    return [Event(attempt=seen.attempt, name=name, payload={"said": _cut(sent)} if sent else {}) for name in names]


def _ended(attempt: AttemptSummary, *, goes_on: bool) -> list[Event]:
    loss = _LOSSES.get(attempt.failure.kind) if attempt.failure is not None else None
    names = [*([loss] if loss else []), *([Name.RESTARTED] if goes_on else [])]
    told = {**_of_attempt(attempt), **_cause(attempt.failure)}
    return [Event(attempt=attempt.number, name=name, payload=told) for name in names]


def end_of(result: JobResult, end: str) -> Event:
    """How the job ended. end: which end of it that is, where it is not its last attempt's."""
    last, cause = result.attempts[-1] if result.attempts else None, result.failure
    if last is None or _kind(last.failure) is not _kind(cause):
        return without_result(cause, end)
    name = Name.FINISHED if cause is None else Name.FAILED
    return Event(attempt=last.number, name=name, payload={**_of_attempt(last), **_cause(cause)})


def without_result(cause: Failure | None, end: str, attempt: int = 0) -> Event:
    """The job ended so, and not as its last attempt did: before it had one, since it was run again, or after it."""
    return Event(attempt=attempt, name=Name.FAILED, payload=_cause(cause), end=end)


def restarted(attempt: int, cause: Failure) -> Event:
    """Another attempt follows, for this one ended so."""
    return Event(attempt=attempt, name=Name.RESTARTED, payload=_cause(cause))


def _kind(cause: Failure | None) -> FailureKind | None:
    return None if cause is None else cause.kind


def _of_attempt(attempt: AttemptSummary) -> Payload:
    return {
        "outcome": attempt.outcome,
        "accelerator": attempt.accelerator,
        "cluster": attempt.cluster,
        "zone": attempt.zone,
        "seconds": round((attempt.ended or attempt.started) - attempt.started, 1),
        "last_step": attempt.last_step,
        "saved_step": attempt.saved_step,
    }


def _cause(cause: Failure | None) -> Payload:
    if cause is None:
        return {}
    return {"kind": cause.kind.value, "message": _cut(cause.message), "advice": cause.advice, "host": cause.host}


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SAID else f"{text[: MOST_SAID - 1]}…"


def event_id(folder: str, event: Event) -> uuid.UUID:
    """The same from each process, so that two that see the same are heard once."""
    return uuid.uuid5(_IDS, " ".join(filter(None, [folder, str(event.attempt), event.name, event.end])))


class SliceEvents:
    """Sends the events of one job's slices. Never raises, and waits for nobody."""

    def __init__(self, job: str, folder: str, belongs_to: Related, emit: Callable[..., object] = emit_event) -> None:
        self._job, self._folder, self._belongs_to, self._emit = job, folder, belongs_to, emit
        self._told: set[uuid.UUID] = set()
        self._sent: dict[int, str] = {}

    def hear(self, news: News) -> None:
        """Send what this news is."""
        if news.state is JobState.STARTING and news.text is not None and news.waits_for is None:
            self._sent.setdefault(news.attempt, news.text)
        for event in events_of(news, self._sent.get(news.attempt, "")):
            self.send(event)

    def send(self, event: Event) -> None:
        """Send it, unless this process has."""
        number = event_id(self._folder, event)
        if number in self._told:
            return
        self._told.add(number)
        name = layout.attempt_name(self._job, event.attempt)
        try:
            self._emit(
                event=f"{PREFIX}{event.name}",
                resource={
                    "prefect.resource.id": f"{PREFIX}{name}",
                    "prefect.resource.name": name,
                    "prefect-tpu.job": self._job,
                    "prefect-tpu.attempt": str(event.attempt),
                    "prefect-tpu.kind": str(event.payload.get("kind", "")),
                    "prefect-tpu.deployment": deployment_of(self._belongs_to),
                },
                related=self._belongs_to,
                payload={"job": self._job, "attempt": event.attempt, "folder": self._folder, **event.payload},
                id=number,
            )
        except Exception as exc:  # whatever is wrong with a server or its events: a training is worth more
            log.info("Event %s of %s could not be sent: %s", event.name, name, exc)
