"""What is a pending run called while its job waits? Names that Prefect shows in the run's timeline."""

from __future__ import annotations

from dataclasses import dataclass

from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.state import HostPhase, JobState, WaitFor

NAMES = {
    WaitFor.TURN: "Queued",
    WaitFor.QUOTA: "WaitingForQuota",
    WaitFor.SLICE: "Provisioning",
    WaitFor.IMAGE: "Pulling",
    WaitFor.START: "Starting",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The name of a pending state, and the reason."""

    name: str
    message: str


BEGUN = Named(name=NAMES[WaitFor.START], message="The slice is there; the flow begins on its leader.")


def named(news: News) -> Named | None:
    """What a pending run is called by this news; None where it says nothing of that."""
    if news.text is None or news.ended is not None:
        return None
    if news.waits_for is not None:
        return Named(name=NAMES[news.waits_for], message=news.text)
    if news.state is JobState.STARTING:
        return Named(name=NAMES[WaitFor.START], message=news.text)
    if news.state in (JobState.QUEUED, JobState.BACKING_OFF):
        return Named(name=NAMES[WaitFor.TURN], message=news.text)
    return None


def has_begun(news: News) -> bool | None:
    """Whether the leader, which runs the flow, has begun; None where the news says nothing of it."""
    if news.observation is None:
        return None
    return news.observation.leader.phase is not HostPhase.PENDING
