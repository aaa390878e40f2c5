"""Whatever was made for a job is given back, whichever way its attempts and its driver end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

import anyio
import pytest
from scripted import CHANGES_SECONDS, Scripted

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Attempt, Handle, Held, Refused
from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.errors import FailureKind, PlatformError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driver import JobDriver
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.state import Cause, HostObservation, HostPhase, Observation, Offer, Waiting
from prefect_tpu.infra.storage import LocalStorage

MakeJob = Callable[..., SliceJob]
Answer = Held | Waiting | Refused
TAKEN = Cause(kind=FailureKind.PREEMPTED, message="the machine was taken back")


class Making(Scripted):
    """Makes a slice for each attempt. answers: to the first questions for one, before it has one."""

    def __init__(self, script: Mapping[int, Sequence[Observation]] = {}, answers: Sequence[Answer] = ()) -> None:  # noqa: B006
        super().__init__(script)
        self._answers = [*answers]
        self.made: list[int] = []
        self.released: list[int] = []
        self.withdrawn: list[str] = []

    async def provision(self, attempt: Attempt, offer: Offer) -> Answer:
        if self._answers:
            return self._answers.pop(0)
        self.made.append(attempt.number)
        return Held(offer=offer, handle={"avoid": attempt.avoid, "of": attempt.number}, serves_once=True)

    async def release(self, held: Held) -> None:
        self.released.append(held.handle["of"])

    async def withdraw(self, job: SliceJob, output: str) -> None:
        self.withdrawn.append(output)


@pytest.fixture
def job(storage: LocalStorage, make_job: MakeJob) -> SliceJob:
    job = make_job()
    history.enter(storage, job)
    for attempt in (1, 2):
        storage.put(layout.record(attempt, 0), HostRecord(attempt=attempt, host=0, exit_code=0).to_json())
        storage.put(layout.checkpoint_seal(attempt, attempt), b"progress, so that nothing is waited for")
    return job


def taken(attempt: int) -> Observation:
    gone = (HostObservation(host=host, phase=HostPhase.ENDED, cause=TAKEN) for host in (0, 1))
    return Observation(attempt=attempt, hosts=tuple(gone))


def done(attempt: int) -> Observation:
    records = [HostRecord(attempt=attempt, host=host, exit_code=0, joined_after=1.0) for host in (0, 1)]
    ended = (HostObservation(host=r.host, phase=HostPhase.ENDED, exit_code=0, joined=True, record=r) for r in records)
    return Observation(attempt=attempt, hosts=tuple(ended))


def driven(storage: LocalStorage, job: SliceJob, backend: Making, carry_out: Callable[[JobDriver], object]) -> None:
    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(60):
                await carry_out(JobDriver(job, storage, backend, tasks=tasks))  # type: ignore[misc]
            tasks.cancel_scope.cancel()

    anyio.run(run)


async def to_its_end(driver: JobDriver) -> None:
    while await driver.next_attempt() is not None:
        await driver.provision()
        await driver.launch()
        await driver.release()
    await driver.let_go()


def test_what_serves_one_attempt_is_given_back_before_the_next_one_has_its_own(
    storage: LocalStorage, job: SliceJob
) -> None:
    backend = Making({1: [taken(1)], 2: [done(2)]})
    driven(storage, job, backend, to_its_end)
    assert (backend.made, backend.released, backend.forgotten) == ([1, 2], [1, 2], [1, 2])


def test_before_a_job_has_its_end_whatever_it_has_is_withdrawn(storage: LocalStorage, job: SliceJob) -> None:
    class Looks(Making):
        async def withdraw(self, job: SliceJob, output: str) -> None:
            assert history.read_result(storage) is None
            await super().withdraw(job, output)

    backend = Looks({1: [done(1)]})
    driven(storage, job, backend, to_its_end)
    assert backend.withdrawn == [storage.url]


def test_what_earlier_tries_left_is_given_back_while_the_attempt_runs(storage: LocalStorage, job: SliceJob) -> None:
    class Busy(Making):
        """Takes nothing back at first; the attempt runs until it has."""

        look_seconds = 0.01

        def __init__(self) -> None:
            super().__init__()
            self.tidied: list[int] = []

        async def tidy(self, job: SliceJob, plan: HostPlan) -> bool:
            self.tidied.append(plan.attempt)
            return len(self.tidied) == 3

        async def observe(self, handle: Handle) -> AsyncGenerator[Observation, None]:
            hosts = tuple(HostObservation(host=host, phase=HostPhase.RUNNING) for host in (0, 1))
            while len(self.tidied) < 3:
                yield Observation(attempt=1, hosts=hosts)
                await anyio.sleep(CHANGES_SECONDS)
            yield done(1)

    backend = Busy()
    driven(storage, job, backend, to_its_end)
    assert backend.tidied == [1, 1, 1]


def test_a_job_that_is_refused_everything_leaves_nothing(storage: LocalStorage, job: SliceJob) -> None:
    backend = Making(answers=[Refused(reason="no quota")])
    driven(storage, job, backend, to_its_end)
    assert backend.made == [] and storage.url in backend.withdrawn


def test_a_stop_that_comes_while_a_slice_is_made_leaves_nothing_though_another_driver_finishes(
    storage: LocalStorage, job: SliceJob
) -> None:
    history.ask_to_stop(storage, "enough")
    backend = Making()
    driven(storage, job, backend, to_its_end)
    assert backend.withdrawn == [storage.url]


async def asks_once_and_goes(driver: JobDriver) -> None:
    await driver.next_attempt()
    with anyio.move_on_after(0.3):
        await driver.provision()
    await driver.let_go()


def test_who_goes_while_a_slice_is_made_for_nobody_takes_it_back(storage: LocalStorage, job: SliceJob) -> None:
    backend = Making(answers=[Waiting(reason="it is being made")] * 100)
    driven(storage, job, backend, asks_once_and_goes)
    assert backend.withdrawn == [storage.url] and backend.released == []


def test_who_goes_with_a_slice_gives_it_back_and_asks_for_nothing_more(storage: LocalStorage, job: SliceJob) -> None:
    backend = Making()
    driven(storage, job, backend, asks_once_and_goes)
    assert (backend.made, backend.released, backend.withdrawn) == ([1], [1], [])


@pytest.mark.parametrize("answers", [[], [Waiting(reason="it is being made")] * 100])
def test_who_slept_too_long_touches_nothing_that_is_its_successors_now(
    storage: LocalStorage, job: SliceJob, answers: list[Answer]
) -> None:
    async def sleeps(driver: JobDriver) -> None:
        await driver.next_attempt()
        with anyio.move_on_after(0.3):
            await driver.provision()
        driver.give_way("another process")
        with pytest.raises(PlatformError, match="another process"):
            await driver.launch()
        await driver.let_go()

    backend = Making(answers=answers)
    driven(storage, job, backend, sleeps)
    assert (backend.released, backend.withdrawn) == ([], [])
