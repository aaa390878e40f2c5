"""Many jobs in one event loop: each is brought to its end, handed back, lost or let go by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from scripted import Scripted

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.errors import FailureKind, NoSuchJob
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.fleet import Broken, Drive, Ended, Fleet, Left, Lost
from prefect_tpu.infra.launcher.handed_back import HandedBack
from prefect_tpu.infra.launcher.lease import Lease, driver_of
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.state import Cause, HostObservation, HostPhase, Observation
from prefect_tpu.infra.storage import LocalStorage

MakeJob = Callable[..., SliceJob]
TAKEN = Cause(kind=FailureKind.PREEMPTED, message="Taint manager: deleting due to NoExecute taint")


def running(attempt: int) -> Observation:
    hosts = (HostObservation(host=host, phase=HostPhase.RUNNING, joined=True) for host in (0, 1))
    return Observation(attempt=attempt, hosts=tuple(hosts))


def done(attempt: int) -> Observation:
    records = [HostRecord(attempt=attempt, host=host, exit_code=0, joined_after=1.0) for host in (0, 1)]
    ended = (HostObservation(host=r.host, phase=HostPhase.ENDED, exit_code=0, joined=True, record=r) for r in records)
    return Observation(attempt=attempt, hosts=tuple(ended))


def taken(attempt: int) -> Observation:
    gone = HostObservation(host=1, phase=HostPhase.ENDED, cause=TAKEN, place="here")
    return Observation(attempt=attempt, hosts=(running(attempt).hosts[0], gone))


@dataclass
class Yard:
    """Where jobs of a fleet lie; `write` puts one down whose attempts do what the script says."""

    root: Path
    make_job: MakeJob

    def write(self, name: str, **settings: object) -> str:
        storage = LocalStorage(self.root / name)
        history.enter(storage, self.make_job(name=name, **settings))
        for attempt in (1, 2):
            storage.put(layout.record(attempt, 0), HostRecord(attempt=attempt, host=0, exit_code=0).to_json())
        return storage.url

    @asynccontextmanager
    async def fleet(self, *script: Sequence[Observation]) -> AsyncIterator[Fleet]:
        backend = Scripted(dict(enumerate(script, start=1)))
        backend.look_seconds = 0.1
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                fleet = Fleet(tasks, backends=lambda name: backend)
                yield fleet
                await fleet.leave()
                assert not fleet.drives


@pytest.fixture
def yard(tmp_path: Path, make_job: MakeJob) -> Yard:
    return Yard(root=tmp_path, make_job=make_job)


def go(deed: Callable[[], Awaitable[None]]) -> None:
    anyio.run(deed)


async def outcome(drive: Drive) -> object:
    await drive.ended.wait()
    return drive.outcome


def test_jobs_are_driven_side_by_side_to_their_ends(yard: Yard) -> None:
    folders, heard = [yard.write(f"job-{number}") for number in range(5)], []

    async def deed() -> None:
        async with yard.fleet([running(1), done(1)]) as fleet:
            drives = [fleet.start(folder, heard.append) for folder in folders]
            assert fleet.start(folders[0]) is drives[0] and set(fleet.drives) == set(folders)
            ends = [await outcome(drive) for drive in drives]
            assert [isinstance(end, Ended) and end.result.state for end in ends] == ["succeeded"] * 5
            assert not fleet.drives and not any(drive.is_driving for drive in drives)

    go(deed)
    assert {news.job for news in heard if isinstance(news, News)} == {f"job-{number}" for number in range(5)}
    assert all(LocalStorage(Path(folder)).get(layout.LEASE) is None for folder in folders)


def test_an_attempt_that_may_be_repeated_is_handed_back_and_goes_on_when_started_again(yard: Yard) -> None:
    folder = yard.write("digits")
    LocalStorage(Path(folder)).put(layout.checkpoint_seal(1, 1), b"progress, so that nothing is waited for")

    heard: list[News] = []

    async def deed() -> None:
        async with yard.fleet([running(1), taken(1)], [running(2), done(2)]) as fleet:
            back = await outcome(fleet.start(folder, heard.append, hands_back=True))
            assert isinstance(back, HandedBack)
            (early,) = [news for news in heard if news.due is not None]
            assert early.due is not None and (early.due.attempt, early.due.failure) == (1, back.failure)
            assert [news for news in heard if news.ended is not None] == heard[heard.index(early) + 1 :]
            assert (back.failure.kind, back.attempt) == (FailureKind.PREEMPTED, 1)
            again = await outcome(fleet.start(folder, hands_back=True))
            assert isinstance(again, HandedBack) and again.attempt == 1, "nobody has done what was to be done after it"
            end = await outcome(fleet.start(folder, hands_back=True, after=1))
            assert isinstance(end, Ended) and [attempt.number for attempt in end.result.attempts] == [1, 2]

    go(deed)


def test_without_handing_back_the_next_attempt_follows_at_once(yard: Yard) -> None:
    folder = yard.write("digits")
    LocalStorage(Path(folder)).put(layout.checkpoint_seal(1, 1), b"progress, so that nothing is waited for")

    async def deed() -> None:
        async with yard.fleet([running(1), taken(1)], [running(2), done(2)]) as fleet:
            end = await outcome(fleet.start(folder))
            assert isinstance(end, Ended) and len(end.result.attempts) == 2

    go(deed)


def test_what_cannot_be_driven_breaks_alone(yard: Yard) -> None:
    good = yard.write("digits")

    async def deed() -> None:
        async with yard.fleet([running(1), done(1)]) as fleet:
            drives = fleet.start(str(yard.root / "nothing")), fleet.start(good)
            broken, end = [await outcome(drive) for drive in drives]
            assert isinstance(broken, Broken) and isinstance(broken.error, NoSuchJob)
            assert isinstance(end, Ended)

    go(deed)


def test_a_fleet_that_leaves_lets_hosts_run_and_gives_its_leases_up(yard: Yard) -> None:
    folder, heard = yard.write("digits"), []

    async def deed() -> None:
        is_running = anyio.Event()

        def hear(news: News) -> None:
            heard.append(news)
            if news.observation is not None:
                is_running.set()

        async with yard.fleet([running(1)]) as fleet:
            drive = fleet.start(folder, hear)
            await is_running.wait()
            assert drive.is_driving
            await fleet.leave()
            assert isinstance(drive.outcome, Left) and not drive.is_driving
            late = await outcome(fleet.start(folder))
            assert isinstance(late, Left)

    go(deed)
    storage = LocalStorage(Path(folder))
    assert storage.get(layout.LEASE) is None
    assert history.read_outcome(storage, 1) is None and history.read_result(storage) is None


def test_a_job_is_held_for_a_deed_unless_somebody_else_has_it(yard: Yard) -> None:
    folder = yard.write("digits")
    storage = LocalStorage(Path(folder))

    async def deed() -> None:
        async with yard.fleet([running(1)]) as fleet:
            async with fleet.hold(folder) as held:
                assert held is not None and held.url == storage.url
                other = Lease(storage, anyio.current_time)
                assert other.take() is not None
            assert other.take() is None
            async with fleet.hold(folder) as held:
                assert held is None
            assert other.successor() is None and storage.get(layout.LEASE) is not None

    go(deed)


def test_who_asks_for_a_lease_again_and_again_sees_that_it_lapsed(yard: Yard) -> None:
    """As of a worker in another pod, that was killed: nobody can be asked whether it lives."""
    folder = yard.write("digits")
    now = [0.0]
    assert Lease(LocalStorage(Path(folder)), lambda: now[0]).take() is None

    async def deed() -> None:
        async with anyio.create_task_group() as tasks:
            fleet = Fleet(tasks, lambda: now[0])
            for seconds, is_ours in ((0.0, False), (10.0, False), (16.0, True)):
                now[0] = seconds
                async with fleet.hold(folder) as held:
                    assert (held is not None) is is_ours

    go(deed)


def test_a_deed_on_a_job_that_is_driven_uses_the_drives_lease(yard: Yard) -> None:
    folder = yard.write("digits")

    async def deed() -> None:
        driven = anyio.Event()
        async with yard.fleet([running(1)]) as fleet:
            drive = fleet.start(folder, lambda news: driven.set())
            await driven.wait()
            before = LocalStorage(Path(folder)).get(layout.LEASE)
            async with fleet.hold(folder) as held:
                assert held is not None and drive.is_driving
            assert before is not None and LocalStorage(Path(folder)).get(layout.LEASE) is not None

    go(deed)


def test_who_waits_for_another_driver_gets_the_end_that_it_wrote(yard: Yard) -> None:
    folder = yard.write("digits")
    storage = LocalStorage(Path(folder))
    other = Lease(storage, lambda: 0.0)
    assert other.take() is None

    async def deed() -> None:
        waits = anyio.Event()
        async with yard.fleet([running(1), done(1)]) as fleet:
            drive = fleet.start(folder, lambda news: waits.set())
            await waits.wait()
            assert not drive.is_driving
            other.give_up()
            assert isinstance(await outcome(drive), Ended)

    go(deed)


def test_jobs_in_a_cluster_live_by_one_heartbeat(yard: Yard) -> None:
    folders = [yard.write(f"job-{number}", backend="jobset", pods=PodSettings(image="x")) for number in range(3)]
    output = LocalStorage(yard.root)

    async def deed() -> None:
        driven: set[str] = set()
        all_driven = anyio.Event()

        def hear(news: News) -> None:
            driven.add(news.job)
            if len(driven) == len(folders):
                all_driven.set()

        async with yard.fleet([running(1)]) as fleet:
            for folder in folders:
                fleet.start(folder, hear)
            await all_driven.wait()
            (beat,) = output.children(layout.HEARTBEATS)
            drivers = [driver_of(LocalStorage(Path(folder))) for folder in folders]
            assert {driver.heartbeat for driver in drivers if driver is not None} == {beat}

    go(deed)
    assert output.children(layout.HEARTBEATS) == []
    assert all(LocalStorage(Path(folder)).get(layout.LEASE) is None for folder in folders)


@pytest.mark.slices  # it lasts as long as a driver takes to look at its lease
def test_a_drive_whose_job_was_taken_over_is_lost(yard: Yard) -> None:
    folder = yard.write("digits")

    async def deed() -> None:
        driven = anyio.Event()
        async with yard.fleet([running(1)]) as fleet:
            drive = fleet.start(folder, lambda news: driven.set())
            await driven.wait()
            Lease(LocalStorage(Path(folder)), lambda: 0.0).renew()
            assert isinstance(await outcome(drive), Lost)
            assert LocalStorage(Path(folder)).get(layout.LEASE) is not None

    go(deed)
