"""A driver of a job in a bucket: it asks little, explains what it waits for, and sends the next attempt elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import anyio
import pytest
from counting import Counting
from scripted import Scripted

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import JobResult, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driver import JobDriver
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.state import Cause, HostObservation, HostPhase, Observation, Waiting
from prefect_tpu.infra.storage import open_storage

MakeJob = Callable[..., SliceJob]
TAKEN = Cause(kind=FailureKind.PREEMPTED, message="Taint manager: deleting due to NoExecute taint")
NO_IMAGE = Cause(kind=FailureKind.IMAGE, message="Host 0's image cannot be fetched.")


def seen(attempt: int, *hosts: HostObservation, **changes: object) -> Observation:
    return Observation(attempt=attempt, hosts=hosts, **changes)  # type: ignore[arg-type]


def hosts(phase: HostPhase, **changes: object) -> tuple[HostObservation, ...]:
    return tuple(HostObservation(host=host, phase=phase, **changes) for host in (0, 1))  # type: ignore[arg-type]


PENDING, RUNNING = hosts(HostPhase.PENDING), hosts(HostPhase.RUNNING, joined=True)


def waiting(attempt: int, reason: str) -> Observation:
    return seen(attempt, *PENDING, waiting=Waiting(reason=reason))


def done(attempt: int) -> Observation:
    records = [HostRecord(attempt=attempt, host=host, exit_code=0, joined_after=1.0) for host in (0, 1)]
    ended = (HostObservation(host=r.host, phase=HostPhase.ENDED, exit_code=0, joined=True, record=r) for r in records)
    return seen(attempt, *ended)


def taken(attempt: int, place: str) -> Observation:
    gone = HostObservation(host=1, phase=HostPhase.ENDED, cause=TAKEN, place=place)
    return seen(attempt, RUNNING[0], gone)


@dataclass
class Drive:
    """What came of a job that was driven to its end."""

    result: JobResult
    backend: Scripted
    said: list[str]
    asked: list[str]


@pytest.fixture
def drive(bucket: str, make_job: MakeJob) -> Callable[..., Drive]:
    """Drives a job in a bucket by a script; `stop_at` asks for a stop when something is said."""

    def to_its_end(*script: Sequence[Observation], stop_at: str = "never", **settings: object) -> Drive:
        job, backend = make_job(**settings), Scripted(dict(enumerate(script, start=1)))
        storage = Counting(open_storage(f"{bucket}/jobs/{job.name}"))
        history.enter(storage, job)
        for attempt in range(1, len(script) + 1):
            record = HostRecord(attempt=attempt, host=0, exit_code=0)
            storage.put(layout.record(attempt, 0), record.to_json())
            storage.put(layout.checkpoint_seal(attempt, attempt), b"progress, so that nothing is waited for")
        storage.questions()
        said: list[str] = []

        def hear(news: News) -> None:
            if news.text is not None:
                said.append(news.text)

        async def run() -> None:
            async with anyio.create_task_group() as tasks:
                wish = lambda: "enough" if any(stop_at in text for text in said) else None  # noqa: E731
                driver = JobDriver(job, storage, backend, hear, wish, tasks=tasks)
                with anyio.fail_after(60):
                    while await driver.next_attempt() is not None:
                        await driver.provision()
                        await driver.launch()
                        await driver.release()
                tasks.cancel_scope.cancel()

        anyio.run(run)
        result = history.read_result(storage)
        assert result is not None
        return Drive(result=result, backend=backend, said=said, asked=storage.questions())

    return to_its_end


def test_who_must_go_leaves_what_waits_its_place_in_the_cluster(bucket: str, make_job: MakeJob) -> None:
    job, backend = make_job(), Scripted({1: [waiting(1, "none is free")]})
    storage = open_storage(f"{bucket}/jobs/digits")
    history.enter(storage, job)

    async def run() -> None:
        waits = anyio.Event()

        def hear(news: News) -> None:
            if "waiting" in (news.text or ""):
                waits.set()

        async def leave_then(driver: JobDriver) -> None:
            await waits.wait()
            await driver.leave()

        async with anyio.create_task_group() as tasks:
            driver = JobDriver(job, storage, backend, hear, tasks=tasks)
            with anyio.fail_after(60):
                assert await driver.next_attempt() == 1
                await driver.provision()
                tasks.start_soon(leave_then, driver)
                await driver.launch()
            assert await driver.next_attempt() is None

    anyio.run(run)
    assert (backend.told, backend.forgotten) == ([], [])
    assert history.read_outcome(storage, 1) is None and history.read_result(storage) is None


def kinds(drive: Drive) -> list[str]:
    return [attempt.outcome for attempt in drive.result.attempts]


def test_what_is_awaited_is_said_on_each_change(drive: Callable[..., Drive]) -> None:
    queue, pool = "2 before it in queue 'tpu'", "the pool grows"
    ended = drive([waiting(1, queue), waiting(1, queue), waiting(1, pool), seen(1, *RUNNING), done(1)])
    assert [text for text in ended.said if "waiting" in text] == [
        f"waiting: {queue}",
        f"waiting: {pool}",
    ]
    assert ended.result.state == "succeeded" and "all hosts have met" in ended.said


def test_what_is_seen_of_hosts_asks_nothing_of_the_bucket(drive: Callable[..., Drive]) -> None:
    few = drive([seen(1, *RUNNING), done(1)], name="few")
    steps = [seen(1, *(replace(host, exit_code=step) for host in RUNNING)) for step in range(40)]
    many = drive([seen(1, *RUNNING), *steps, done(1)], name="many")
    assert len(many.asked) - len(few.asked) < len(steps), "one look more at checkpoints, where the first came too early"


def test_a_slice_that_does_not_come_gives_the_next_offer_its_turn(drive: Callable[..., Drive]) -> None:
    never = [waiting(1, "16 chips are in use")]
    ended = drive(never, [done(2)], accelerators=("v6e-16", "v5e-16"), provision_timeout=0.1, max_preemptions=0)
    assert kinds(ended) == ["no_capacity", "succeeded"]
    assert [attempt.accelerator for attempt in ended.result.attempts] == ["v6e-16", "v5e-16"]
    failure = ended.result.attempts[0].failure
    assert failure is not None and "16 chips are in use" in failure.message
    assert ended.backend.forgotten == [1, 2], "what waits in the cluster is taken out of it"


def test_a_slice_that_comes_nowhere_ends_the_job(drive: Callable[..., Drive]) -> None:
    scripts = [[waiting(attempt, "none is free")] for attempt in (1, 2)]
    ended = drive(*scripts, accelerators=("v6e-16", "v5e-16"), provision_timeout=0.1)
    assert (ended.result.state, kinds(ended)) == ("failed", ["no_capacity"] * 2)


def test_a_stop_ends_what_waits_at_once(drive: Callable[..., Drive]) -> None:
    ended = drive([waiting(1, "none is free")], stop_at="waiting")
    assert (ended.result.state, kinds(ended)) == ("stopped", ["stopped"])
    assert ended.backend.told == [1] and ended.backend.forgotten == [1]


def test_what_cannot_go_on_is_ended_at_once(drive: Callable[..., Drive]) -> None:
    ended = drive([seen(1, *PENDING, waiting=Waiting(reason="its image")), seen(1, *PENDING, cause=NO_IMAGE)])
    assert (ended.result.state, kinds(ended)) == ("failed", ["image"])


def test_places_that_lost_hosts_are_avoided_by_the_next_attempts(
    drive: Callable[..., Drive], make_job: MakeJob
) -> None:
    script = [[seen(1, *RUNNING), taken(1, "pool-a")], [seen(2, *RUNNING), taken(2, "pool-b")], [done(3)]]
    ended = drive(*script)
    assert kinds(ended) == ["preempted", "preempted", "succeeded"]
    assert [attempt.places for attempt in ended.result.attempts] == [("pool-a",), ("pool-b",), ()]
    assert [attempt.avoid for attempt in ended.backend.attempts] == [(), ("pool-a",), ("pool-b", "pool-a")]
    assert ended.backend.chosen == [(), ("pool-a",), ("pool-b", "pool-a")]  # though a slice was held each time
