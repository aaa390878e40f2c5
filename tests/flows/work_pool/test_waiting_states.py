"""What a pending run is called by the news of its job."""

from __future__ import annotations

import pytest

from prefect_tpu.flows.work_pool.waiting_states import Named, has_begun, named
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.state import HostObservation, HostPhase, JobState, Observation, WaitFor


def news(state: JobState, text: str | None = None, **more: object) -> News:
    return News(job="digits", state=state, attempt=1, text=text, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("heard", "name"),
    [
        (news(JobState.QUEUED, "waiting: others have it", waits_for=WaitFor.TURN), "Queued"),
        (news(JobState.STARTING, "waiting: no quota", waits_for=WaitFor.QUOTA), "WaitingForQuota"),
        (news(JobState.STARTING, "waiting: no nodes", waits_for=WaitFor.SLICE), "Provisioning"),
        (news(JobState.STARTING, "waiting: an image", waits_for=WaitFor.IMAGE), "Pulling"),
        (news(JobState.STARTING, "waiting: 1 of 2", waits_for=WaitFor.START), "Starting"),
        (news(JobState.STARTING, "v6e-16: 4 hosts"), "Starting"),
        (news(JobState.BACKING_OFF, "next attempt in 5 s"), "Queued"),
        (news(JobState.RUNNING, "all hosts have met"), None),
        (news(JobState.STOPPING, "stopping"), None),
        (news(JobState.STARTING), None),
    ],
)
def test_what_is_said_is_what_it_is_called(heard: News, name: str | None) -> None:
    assert named(heard) == (None if name is None else Named(name=name, message=heard.text or ""))


@pytest.mark.parametrize("phase", HostPhase)
def test_the_leader_has_begun_or_not(phase: HostPhase) -> None:
    hosts = (HostObservation(host=0, phase=phase), HostObservation(host=1, phase=HostPhase.PENDING))
    heard = news(JobState.STARTING, observation=Observation(attempt=1, hosts=hosts))
    assert has_begun(heard) is (phase is not HostPhase.PENDING)
    assert has_begun(news(JobState.STARTING, "text")) is None
