"""Chips are had before a slice is sought, for as long as it lives, once; whoever counts them ends no training."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio
import pytest
from counted import Counted
from counting import Counting
from scripted import Scripted

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Attempt, Handle, Held, Refused
from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import JobResult, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driver import JobDriver
from prefect_tpu.infra.launcher.fleet import Ended, Fleet
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.launcher.permits import Chips, Permit, read_permit, write_permit
from prefect_tpu.infra.state import Cause, HostObservation, HostPhase, Observation, Offer, WaitFor, Waiting
from prefect_tpu.infra.storage import LocalStorage

MakeJob = Callable[..., SliceJob]
LOOK_SECONDS = 0.01
TAKEN = Cause(kind=FailureKind.PREEMPTED, message="the machine was taken back")
V6E = Chips(kind="v6e", count=16)
OTHERS = Permit(lease="others", chips=V6E)
DRY = Waiting(reason="GCE_STOCKOUT", is_dry=True)


def running(attempt: int) -> Observation:
    hosts = (HostObservation(host=host, phase=HostPhase.RUNNING, joined=True) for host in (0, 1))
    return Observation(attempt=attempt, hosts=tuple(hosts))


def taken(attempt: int) -> Observation:
    gone = HostObservation(host=1, phase=HostPhase.ENDED, cause=TAKEN, place="here")
    return Observation(attempt=attempt, hosts=(running(attempt).hosts[0], gone))


def done(attempt: int) -> Observation:
    records = [HostRecord(attempt=attempt, host=host, exit_code=0, joined_after=1.0) for host in (0, 1)]
    ended = (HostObservation(host=r.host, phase=HostPhase.ENDED, exit_code=0, joined=True, record=r) for r in records)
    return Observation(attempt=attempt, hosts=tuple(ended))


class Slices(Scripted):
    """Makes a slice for each attempt, and remembers how many chips were had when it was asked for one.

    may_end: until it is set, nothing is seen of an attempt but that it runs. answers: to the first questions.
    """

    look_seconds = LOOK_SECONDS

    def __init__(
        self,
        counted: Counted,
        script: Mapping[int, Sequence[Observation]],
        answers: Sequence[Waiting | Refused] = (),
    ) -> None:
        super().__init__(script)
        self.offers: list[str] = []
        self.had: list[int] = []
        self.may_end = anyio.Event()
        self._counted, self._first = counted, [*answers]

    async def provision(self, attempt: Attempt, offer: Offer) -> Held | Waiting | Refused:
        self.offers.append(offer.accelerator)
        self.had.append(sum(chips.count for chips in self._counted.taken.values()))
        if self._first:
            return self._first.pop(0)
        return Held(offer=offer, handle={"avoid": attempt.avoid}, serves_once=True)

    async def observe(self, handle: Handle) -> AsyncGenerator[Observation, None]:
        yield running(handle["attempt"])
        await self.may_end.wait()
        async for seen in super().observe(handle):
            yield seen


@dataclass
class Scene:
    """A job, who counts chips, and what is said while the job is driven."""

    storage: LocalStorage
    make_job: MakeJob
    counted: Counted = field(default_factory=lambda: Counted({"v6e": 16}))
    said: list[str] = field(default_factory=list)
    waited_for: list[WaitFor] = field(default_factory=list)
    backend: Slices | None = None

    def drive(
        self,
        *script: Sequence[Observation],
        when: Mapping[str, Callable[[], None]] | None = None,
        answers: Sequence[Waiting | Refused] = (),
        until: str = "",
        **settings: object,
    ) -> JobResult | None:
        """To its end, or until something is said, as if the process were killed then.

        when: what happens as soon as these words are said; where it says nothing of an attempt's end, that may come.
        """
        job = self.make_job(**settings)
        history.enter(self.storage, job)
        for attempt in range(1, len(script) + 1):
            record = HostRecord(attempt=attempt, host=0, exit_code=0)
            self.storage.put(layout.record(attempt, 0), record.to_json())
            self.storage.put(layout.checkpoint_seal(attempt, attempt), b"progress, so that nothing is waited for")
        due = dict(when or {})

        async def run() -> None:
            self.backend = Slices(self.counted, dict(enumerate(script, start=1)), answers)
            if not any("have met" in words for words in due):
                self.backend.may_end.set()
            async with anyio.create_task_group() as tasks:

                def hear(news: News) -> None:
                    if news.text is None:
                        return
                    self.said.append(news.text)
                    self.waited_for.extend([news.waits_for] if news.waits_for else [])
                    for words in [words for words in due if words in news.text]:
                        due.pop(words)()
                    if until and until in news.text:
                        tasks.cancel_scope.cancel()

                driver = JobDriver(job, self.storage, self.backend, hear, tasks=tasks, permits=self.counted)
                with anyio.fail_after(60):
                    while await driver.next_attempt() is not None:
                        await driver.provision()
                        await driver.launch()
                        await driver.release()
                await driver.let_go()
                tasks.cancel_scope.cancel()

        anyio.run(run)
        return history.read_result(self.storage)

    def let_end(self) -> None:
        assert self.backend is not None
        self.backend.may_end.set()

    def has_said(self, words: str) -> bool:
        return any(words in text for text in self.said)


@pytest.fixture
def scene(storage: LocalStorage, make_job: MakeJob) -> Scene:
    return Scene(storage=storage, make_job=make_job)


def test_they_are_had_before_the_slice_and_free_after_it(scene: Scene) -> None:
    ended = scene.drive([done(1)])
    assert ended is not None and ended.state == "succeeded"
    assert scene.backend is not None and scene.backend.had == [16]
    assert scene.counted.renewed and not scene.counted.taken and read_permit(scene.storage) is None


def test_each_attempt_has_them_once(scene: Scene) -> None:
    ended = scene.drive([taken(1)], [done(2)])
    assert ended is not None and [attempt.outcome for attempt in ended.attempts] == ["preempted", "succeeded"]
    assert scene.counted.most == {"v6e": 16} and not scene.counted.taken


@pytest.mark.parametrize("settings", [{"accelerators": ("cpu",)}, {"accelerators": ("v5p-8",)}])
def test_what_nobody_counts_is_as_it_was(scene: Scene, settings: dict[str, object]) -> None:
    counting = Counting(scene.storage)
    scene.storage = counting  # type: ignore[assignment]
    ended = scene.drive([done(1)], **settings)
    assert ended is not None and ended.state == "succeeded"
    assert not [question for question in counting.questions() if layout.PERMIT in question]


def test_where_too_few_are_free_another_kind_has_its_turn(scene: Scene) -> None:
    scene.counted.taken["others"] = V6E
    ended = scene.drive([done(1)], accelerators=("v6e-16", "v5e-16"))
    assert ended is not None and ended.attempts[0].accelerator == "v5e-16"
    assert ended.attempts[0].instead_of == "v6e-16 gave no slice: 16 chips of v6e are not free"
    assert scene.backend is not None and scene.backend.offers == ["v5e-16"]
    assert scene.waited_for == [WaitFor.QUOTA] and scene.counted.taken == {"others": V6E}


def test_where_all_are_of_one_kind_they_are_waited_for(scene: Scene) -> None:
    scene.counted.taken["others"] = V6E
    ended = scene.drive([done(1)], when={"are not free": scene.counted.taken.clear}, accelerators=("v6e-16", "v6e-8"))
    assert ended is not None and ended.attempts[0].accelerator == "v6e-16", "it keeps its turn"
    assert scene.has_said("waiting: v6e-16: 16 chips of v6e are not free") and not scene.counted.taken


def test_more_than_there_are_is_refused_at_once(scene: Scene) -> None:
    ended = scene.drive(accelerators=("v6e-32",))
    assert ended is not None and ended.failure is not None
    assert (ended.state, ended.failure.kind) == ("failed", FailureKind.REFUSED)
    assert "there are 16 in all" in ended.failure.message
    assert scene.backend is not None and not scene.backend.offers


def test_they_are_free_while_a_platform_has_no_slice(scene: Scene) -> None:
    free: list[int] = []
    look = lambda: free.append(scene.counted.in_use("v6e"))  # noqa: E731
    ended = scene.drive([done(1)], answers=[DRY], when={"GCE_STOCKOUT": look})
    assert ended is not None and ended.state == "succeeded"
    assert free == [0] and scene.backend is not None and scene.backend.had == [16, 16]


def test_whoever_comes_after_a_killed_driver_renews_the_same(scene: Scene) -> None:
    assert scene.drive([], when={"have met": lambda: None}, until="have met") is None
    noted = read_permit(scene.storage)
    assert noted is not None and scene.counted.taken == {noted.lease: V6E}
    scene.counted.renewed.clear()
    ended = scene.drive([done(1)])
    assert ended is not None and ended.state == "succeeded" and scene.has_said("found running")
    assert set(scene.counted.renewed) == {noted.lease} and scene.counted.most == {"v6e": 16}
    assert not scene.counted.taken and read_permit(scene.storage) is None


def test_so_does_one_that_finds_nothing_begun(scene: Scene) -> None:
    history.enter(scene.storage, scene.make_job())
    scene.counted.taken[OTHERS.lease] = V6E
    write_permit(scene.storage, OTHERS)  # as a driver leaves it that is killed before it asks for a slice
    ended = scene.drive([done(1)])
    assert ended is not None and ended.state == "succeeded"
    assert set(scene.counted.renewed) == {OTHERS.lease} and not scene.counted.taken


def test_one_that_has_lapsed_before_a_slice_was_had_is_waited_for_anew(scene: Scene) -> None:
    history.enter(scene.storage, scene.make_job())
    write_permit(scene.storage, Permit(lease="long-ago", chips=V6E))
    scene.counted.taken["others"] = V6E
    ended = scene.drive([done(1)], when={"are not free": scene.counted.taken.clear})
    assert ended is not None and ended.state == "succeeded" and scene.backend is not None
    assert scene.backend.had == [16] and scene.has_said("waiting: 16 chips of v6e are not free")


def test_one_that_lapses_while_the_slice_lives_is_taken_again(scene: Scene) -> None:
    leases: list[str] = []

    def lapse() -> None:
        leases.extend(scene.counted.taken)
        scene.counted.taken.clear()
        scene.counted.gave = scene.let_end

    ended = scene.drive([done(1)], when={"have met": lapse})
    assert ended is not None and ended.state == "succeeded" and len(ended.attempts) == 1
    assert scene.counted.asked == 2 and scene.counted.renewed[-1] != leases[0] and not scene.counted.taken


def test_where_it_cannot_be_taken_again_that_is_told_and_the_training_goes_on(scene: Scene) -> None:
    def lose() -> None:
        scene.counted.taken.clear()
        scene.counted.taken["others"] = V6E

    told = "goes on, though its 16 chips of v6e are not counted as its own: 16 chips of v6e are not free"
    ended = scene.drive([done(1)], when={"have met": lose, told: scene.let_end})
    assert ended is not None and ended.state == "succeeded" and len(ended.attempts) == 1
    assert scene.counted.taken == {"others": V6E} and read_permit(scene.storage) is None


def test_what_is_not_counted_as_its_own_is_not_asked_for_once_the_attempt_has_ended(scene: Scene) -> None:
    def lose() -> None:
        scene.counted.taken.clear()
        scene.counted.taken["others"] = V6E

    told, free = "are not counted as its own", scene.counted.taken.clear
    ended = scene.drive([taken(1)], [done(2)], when={"have met": lose, told: scene.let_end, "waiting": free})
    assert ended is not None and [attempt.outcome for attempt in ended.attempts] == ["preempted", "succeeded"]
    waits = next(index for index, text in enumerate(scene.said) if "waiting" in text)
    assert not any(told in text for text in scene.said[waits:]) and not scene.counted.taken


def test_before_a_slice_is_had_an_answer_is_waited_for(scene: Scene) -> None:
    scene.counted.is_away = True
    ended = scene.drive([done(1)], when={"nobody answers": lambda: setattr(scene.counted, "is_away", False)})
    assert ended is not None and ended.state == "succeeded"
    assert scene.has_said("waiting: nobody answers") and scene.backend is not None and scene.backend.had == [16]


def test_without_an_answer_a_training_goes_on_to_its_end(scene: Scene) -> None:
    def leave() -> None:
        scene.counted.is_away = True
        scene.let_end()

    ended = scene.drive([done(1)], when={"have met": leave})
    assert ended is not None and ended.state == "succeeded"
    assert len(scene.counted.taken) == 1, "it lapses by itself"
    assert read_permit(scene.storage) is None


def test_a_driver_that_is_asked_nothing_of_chips_leaves_a_permit_to_lapse(
    storage: LocalStorage, make_job: MakeJob
) -> None:
    job, counted = make_job(), Counted({})
    history.enter(storage, job)
    storage.put(layout.record(1, 0), HostRecord(attempt=1, host=0, exit_code=0).to_json())
    write_permit(storage, OTHERS)

    async def run() -> None:
        backend = Slices(counted, {1: [done(1)]})
        backend.may_end.set()
        async with anyio.create_task_group() as tasks:
            driver = JobDriver(job, storage, backend, tasks=tasks)
            with anyio.fail_after(60):
                while await driver.next_attempt() is not None:
                    await driver.provision()
                    await driver.launch()
                    await driver.release()

    anyio.run(run)
    result = history.read_result(storage)
    assert result is not None and result.state == "succeeded" and read_permit(storage) is None


def test_a_fleet_has_no_more_at_once_than_there_are(storage: LocalStorage, make_job: MakeJob) -> None:
    counted, folders = Counted({"v6e": 32}), []
    for number in range(5):
        folder = LocalStorage(storage.root.parent / f"job-{number}")
        history.enter(folder, make_job(name=f"job-{number}"))
        folder.put(layout.record(1, 0), HostRecord(attempt=1, host=0, exit_code=0).to_json())
        folders.append(folder.url)

    async def run() -> None:
        backend = Slices(counted, {1: [running(1), done(1)]})
        counted.gave = lambda: backend.may_end.set() if counted.in_use("v6e") == 32 else None
        async with anyio.create_task_group() as tasks:
            fleet = Fleet(tasks, backends=lambda name: backend, permits=counted)
            with anyio.fail_after(60):
                drives = [fleet.start(folder) for folder in folders]
                for drive in drives:
                    await drive.ended.wait()
                    assert isinstance(drive.outcome, Ended) and drive.outcome.result.state == "succeeded"
                await fleet.leave()

    anyio.run(run)
    assert counted.most == {"v6e": 32} and not counted.taken


def test_what_lives_keeps_its_chips_when_its_driver_leaves(storage: LocalStorage, make_job: MakeJob) -> None:
    counted = Counted({"v6e": 16})
    history.enter(storage, make_job())

    async def run() -> None:
        met, backend = anyio.Event(), Slices(counted, {1: []})
        async with anyio.create_task_group() as tasks:
            fleet = Fleet(tasks, backends=lambda name: backend, permits=counted)
            with anyio.fail_after(60):
                fleet.start(storage.url, lambda news: met.set() if "have met" in (news.text or "") else None)
                await met.wait()
                await fleet.leave()

    anyio.run(run)
    noted = read_permit(storage)
    assert noted is not None and counted.taken == {noted.lease: V6E}
