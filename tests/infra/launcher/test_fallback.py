"""A driver whose first choice of place has no slice: it goes on to the next, comes back, and says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio
import pytest
from scripted import Scripted

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Refused
from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.job import JobResult, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driver import JobDriver
from prefect_tpu.infra.launcher.holding import Holding
from prefect_tpu.infra.launcher.keeping import Keeping
from prefect_tpu.infra.launcher.news import Announcer, News
from prefect_tpu.infra.launcher.permits import UNCOUNTED
from prefect_tpu.infra.launcher.waiting import read_waiting
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.state import HostObservation, HostPhase, Observation, Waiting
from prefect_tpu.infra.storage import open_storage

EAST, CENTRAL = "gke://research/us-east5/a", "gke://research/us-central1/b"
HERE, THERE, AWAY = "us-east5-a", "us-east5-b", "us-central1-a"
PODS = PodSettings(image="python", cluster=EAST, zones=(HERE, THERE))
OF_TWO_CLUSTERS = PodSettings(image="python", cluster=EAST, fallback_clusters=(CENTRAL,), zones=(HERE, AWAY))
Answers = Mapping[str, Sequence[Waiting | Refused | Exception]]
DRY, TAKEN = Waiting(reason="GCE_STOCKOUT", is_dry=True), Waiting(reason="its pool is being made")
PENDING = tuple(HostObservation(host=host, phase=HostPhase.PENDING) for host in (0, 1))


class Quick(Scripted):
    """One whose offers rest for moments, where those of a cluster rest for a minute."""

    look_seconds = 0.01


def dry(attempt: int) -> Observation:
    waits = Waiting(reason="the autoscaler could not add nodes", is_dry=True)
    return Observation(attempt=attempt, hosts=PENDING, waiting=waits)


def done(attempt: int) -> Observation:
    records = (HostRecord(attempt=attempt, host=host, exit_code=0, joined_after=1.0) for host in (0, 1))
    ended = (HostObservation(host=r.host, phase=HostPhase.ENDED, exit_code=0, joined=True, record=r) for r in records)
    return Observation(attempt=attempt, hosts=tuple(ended))


@dataclass
class Drive:
    """What came of a job that was driven to its end."""

    result: JobResult
    backend: Scripted
    got: list[str | None] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def zones(self) -> list[str | None]:
        return [attempt.zone for attempt in self.result.attempts]


@pytest.fixture
def drive(bucket: str, make_job: Callable[..., SliceJob]) -> Callable[..., Drive]:
    """Drives a job with these answers to its questions for a slice, and this seen of each attempt."""

    def to_its_end(
        answers: Mapping[str, Sequence[Waiting | Refused | Exception]],
        *script: Sequence[Observation],
        **settings: object,
    ) -> Drive:
        job = make_job(**{"accelerators": ("v6e-16",), "backend": "jobset", "pods": PODS, **settings})
        backend, storage = Quick(dict(enumerate(script, start=1)), answers), open_storage(f"{bucket}/jobs/{job.name}")
        history.enter(storage, job)
        for attempt in range(1, len(script) + 1):
            storage.put(layout.record(attempt, 0), HostRecord(attempt=attempt, host=0, exit_code=0).to_json())
        got: list[str | None] = []
        said: list[str] = []

        def hear(news: News) -> None:
            said.extend([news.text] if news.text is not None else [])

        async def run() -> None:
            async with anyio.create_task_group() as tasks:
                driver = JobDriver(job, storage, backend, hear, tasks=tasks)
                with anyio.fail_after(60):
                    while await driver.next_attempt() is not None:
                        got.append(await driver.provision())
                        await driver.launch()
                        await driver.release()
                tasks.cancel_scope.cancel()

        anyio.run(run)
        result = history.read_result(storage)
        assert result is not None
        return Drive(result=result, backend=backend, got=got, said=said)

    return to_its_end


def test_a_zone_without_capacity_gives_its_turn_to_the_next(drive: Callable[..., Drive]) -> None:
    ended = drive({HERE: [DRY]}, [done(1)])
    assert (ended.result.state, ended.zones, ended.backend.asked) == ("succeeded", [THERE], [HERE, THERE])
    assert ended.got == [f"v6e-16 in {THERE}"]
    assert ended.result.attempts[0].instead_of == f"v6e-16 in {HERE} gave no slice: GCE_STOCKOUT"
    assert f"waiting: v6e-16 in {HERE}: GCE_STOCKOUT" in ended.said
    assert any(text.startswith(f"v6e-16 in {HERE} gave no slice; beginning on") for text in ended.said)


def test_where_none_has_any_each_is_asked_again_in_turn(drive: Callable[..., Drive]) -> None:
    ended = drive({HERE: [DRY, DRY], THERE: [DRY]}, [done(1)])
    assert (ended.zones, ended.backend.asked) == ([THERE], [HERE, THERE, HERE, THERE])


def test_while_all_of_them_rest_it_is_said_what_each_has_answered(
    bucket: str, make_job: Callable[..., SliceJob]
) -> None:
    job, said = make_job(accelerators=("v6e-16",), backend="jobset", pods=PODS), list[str | None]()
    tell = Announcer(job.name, lambda news: said.append(news.text))
    storage = open_storage(f"{bucket}/jobs/{job.name}")

    async def rest() -> None:
        async with anyio.create_task_group() as tasks:
            holding = Holding(job, storage, Quick({}, {}), tell, Keeping(job, storage, UNCOUNTED, tell, tasks))
            for offer in holding.offers.all:
                holding.offers.wait_for(offer, DRY)
            await holding.rest(1, 0.0)

    anyio.run(rest)
    answers = f"v6e-16 in {HERE}: GCE_STOCKOUT; v6e-16 in {THERE}: GCE_STOCKOUT"
    assert said == [f"waiting: no capacity, and asked again soon: {answers}"]
    assert read_waiting(storage, 1) == f"no capacity, and asked again soon: {answers}"


def test_what_is_being_made_keeps_its_turn(drive: Callable[..., Drive]) -> None:
    ended = drive({HERE: [TAKEN, TAKEN]}, [done(1)])
    assert (ended.zones, ended.backend.asked) == ([HERE], [HERE] * 3)


def test_in_the_end_every_reason_is_told(drive: Callable[..., Drive]) -> None:
    no_quota = Refused(reason="no quota of v6e.")
    ended = drive({HERE: [DRY] * 99, THERE: [no_quota]}, provision_timeout=0.5)
    assert ended.result.state == "failed" and ended.result.failure is not None
    assert ended.result.failure.evidence == (f"v6e-16 in {HERE}: GCE_STOCKOUT.", f"v6e-16 in {THERE}: no quota of v6e.")
    assert "No slice within" in ended.result.failure.message


@pytest.mark.parametrize("error", [PlatformError("It does not answer."), UsageError("There is no such cluster.")])
def test_a_cluster_that_is_not_there_leaves_the_job_to_the_others(
    drive: Callable[..., Drive], error: Exception
) -> None:
    ended = drive({HERE: [error]}, [done(1)], pods=OF_TWO_CLUSTERS)
    assert (ended.zones, ended.result.attempts[0].cluster) == ([AWAY], CENTRAL)
    assert str(error).rstrip(".") in (ended.result.attempts[0].instead_of or "")


def test_where_there_is_no_other_cluster_its_error_is_the_drivers(drive: Callable[..., Drive]) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        drive({HERE: [PlatformError("It does not answer.")]})
    assert caught.group_contains(PlatformError, match="It does not answer")


def test_an_attempt_that_waits_in_vain_makes_way_for_the_next_offer(drive: Callable[..., Drive]) -> None:
    ended = drive({}, [dry(1)], [done(2)], max_preemptions=0)
    assert [attempt.outcome for attempt in ended.result.attempts] == ["no_capacity", "succeeded"]
    assert ended.zones == [HERE, THERE] and ended.backend.forgotten == [1, 2]
    first, second = ended.result.attempts
    assert first.failure is not None and "the autoscaler could not add nodes" in first.failure.message
    assert second.instead_of == first.failure.message.rstrip(".")
    assert len([text for text in ended.said if "the autoscaler could not add nodes" in text]) == 1, ended.said
    assert f"no_capacity: v6e-16 in {HERE} has no capacity now." in ended.said


def test_it_comes_back_to_the_first_once_that_has_rested(drive: Callable[..., Drive]) -> None:
    ended = drive({}, [dry(1)], [dry(2)], [done(3)])
    assert ended.zones == [HERE, THERE, HERE]
    assert [attempt.outcome for attempt in ended.result.attempts] == ["no_capacity", "no_capacity", "succeeded"]


def test_attempts_without_capacity_end_with_the_time_for_all_of_them(drive: Callable[..., Drive]) -> None:
    ended = drive({}, *([dry(attempt)] for attempt in range(1, 30)), provision_timeout=1.0)
    assert ended.result.state == "failed" and ended.result.failure is not None
    assert len(ended.result.failure.evidence) == 2 and HERE in ended.result.failure.message
    assert THERE in ended.result.failure.message


def test_the_only_offer_goes_on_waiting(drive: Callable[..., Drive]) -> None:
    ended = drive({}, [dry(1), dry(1), done(1)], pods=PodSettings(image="python"))
    assert [attempt.outcome for attempt in ended.result.attempts] == ["succeeded"]
