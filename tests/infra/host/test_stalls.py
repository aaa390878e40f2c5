"""When all hosts stand still, and when only some of them are quiet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest
from counting import Counting

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Activity, HostRecord, Scratch, Silence, write_json
from prefect_tpu.infra.host.stalls import LONGER, REFRESHED, SOON_SECONDS, StallWatch, is_stalled
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.scratch import signs_of_life
from prefect_tpu.infra.storage import LocalStorage

LIMIT = 60.0
NO_GROUP = 2**22 + 1  # above the largest process id: nobody is asked for stacks


def silent(seconds: float = LIMIT, *, agreed: bool = True, **changes: Any) -> Silence:
    return Silence(**{"silent_for": seconds, "is_agreed": agreed, **changes})


COMPILING, SAVING = {"activity": Activity.COMPILING}, {"activity": Activity.SAVING}


@pytest.mark.parametrize(
    ("own", "others", "answer"),
    [
        (silent(), [], True),
        (silent(LIMIT - 1), [], False),
        (silent(agreed=False), [], False),
        (silent(), [silent(), silent()], True),
        (silent(), [silent(), None], False),
        (silent(), [None], False),
        (silent(), [silent(agreed=False)], False),
        (silent(), [silent(LIMIT - 1)], False),
        (silent(**COMPILING), [], False),
        (silent(LIMIT * LONGER, **COMPILING), [], True),
        (silent(), [silent(**SAVING)], False),
        (silent(LIMIT * LONGER), [silent(LIMIT * LONGER, **SAVING)], True),
        (silent(LIMIT * LONGER), [silent(LIMIT * LONGER - 1, **SAVING)], False),
    ],
)
def test_the_decision(own: Silence, others: list[Silence | None], answer: bool) -> None:
    assert is_stalled(own, others, LIMIT) is answer


@dataclass
class Host:
    """One host's watch at a clock of the test's."""

    watch: StallWatch
    storage: LocalStorage
    number: int
    begun: list[int] = field(default_factory=list)

    def reports(self, step: int, **changes: Any) -> None:
        """The program does, and its events are shipped, as the runner ships them."""
        self.scratch(Scratch.PROGRESS, write_json({"step": step, "reported_after": float(step), **changes}))
        self.storage.put(layout.ledger(3, f"host{self.number}", 0), b"{}\n")

    def joins(self) -> None:
        self.scratch(Scratch.EVENTS, b'{"after": 1.0, "event": "joined"}\n')
        self.storage.put(layout.ledger(3, f"host{self.number}", 0), b"{}\n")

    def scratch(self, name: str, data: bytes) -> None:
        self.storage.put(f"{layout.scratch(3, self.number)}/{name}", data)

    def ends(self) -> None:
        record = HostRecord(attempt=3, host=self.number, exit_code=0)
        self.storage.put(layout.record(3, self.number), record.to_json())

    @property
    def published(self) -> Silence | None:
        raw = self.storage.get(layout.silence(3, self.number))
        return None if raw is None else Silence.from_json(raw)


@pytest.fixture
def hosts(storage: LocalStorage, make_plan: Callable[..., HostPlan]) -> Callable[..., list[Host]]:
    def make(count: int, limit: float | None = LIMIT, **changes: Any) -> list[Host]:
        plan = make_plan(hosts=count, output=storage.url, stall_timeout=limit, **changes)
        made = []
        for number in range(count):
            begun: list[int] = []
            watch = StallWatch(plan, number, storage, NO_GROUP, lambda begun=begun: begun.append(1))  # type: ignore[misc]
            made.append(Host(watch, storage, number, begun))
        return made

    return make


def look(hosts: list[Host], *moments: float) -> list[list[bool]]:
    """Each host's answer at each moment, a few looks long: asking for stacks takes two of them."""
    return [[host.watch.is_stalled(moment) for host in hosts] for moment in moments]


def settle(hosts: list[Host], begin: float) -> list[bool]:
    """What each host has said within some seconds from a moment on."""
    said = look(hosts, *(begin + n * SOON_SECONDS for n in range(20)))
    return [any(answers) for answers in zip(*said, strict=True)]


def test_a_program_that_never_gave_a_sign_is_not_watched(hosts: Callable[..., list[Host]]) -> None:
    (host,) = hosts(1)
    assert settle([host], 10_000.0) == [False]
    assert host.published is None and host.begun == []


def test_without_a_limit_nobody_is_watched(hosts: Callable[..., list[Host]]) -> None:
    (host,) = hosts(1, limit=None)
    host.reports(1)
    assert settle([host], 0.0) == settle([host], 10_000.0) == [False]


def test_a_flow_is_watched_from_the_first_sign_of_a_region_to_the_regions_end(hosts: Callable[..., list[Host]]) -> None:
    (host,) = hosts(1, program=Program(kind="flow", target="prefect"))
    host.reports(1)  # by a region that has ended since
    assert settle([host], 0.0) == settle([host], 10 * LIMIT) == [False], "a flow makes no steps between its regions"
    before = signs_of_life(host.storage.path(layout.scratch(3, 0)))
    host.scratch(Scratch.REGION, write_json({"group": NO_GROUP, "before": before}))
    assert settle([host], 11 * LIMIT) == settle([host], 20 * LIMIT) == [False], "nor is one missed that never spoke"
    host.reports(2)
    assert settle([host], 21 * LIMIT) == [False]
    assert settle([host], 23 * LIMIT) == [True]
    host.storage.delete(f"{layout.scratch(3, 0)}/{Scratch.REGION}")
    assert settle([host], 24 * LIMIT) == [False]
    assert host.published is None


def test_hosts_that_all_stand_still_know_it_of_each_other_before_one_ends(hosts: Callable[..., list[Host]]) -> None:
    pair = hosts(2)
    for host in pair:
        host.joins()
    look(pair, 0.0)
    assert [host.begun for host in pair] == [[1], [1]]
    assert settle(pair, LIMIT - 10) == [False, False] and pair[0].published is None
    assert settle(pair[:1], LIMIT) == [False], "the other has not said yet that it is silent"
    assert pair[0].published is not None and not pair[0].published.is_agreed
    assert settle(pair, LIMIT + 10) == [True, True]
    assert all(host.published and host.published.is_agreed for host in pair)


def test_a_quiet_host_is_none_that_stands_still_while_another_reports(hosts: Callable[..., list[Host]]) -> None:
    leader, quiet = pair = hosts(2)
    quiet.joins()
    for minute in range(5):
        leader.reports(minute)
        assert settle(pair, minute * LIMIT) == [False, False]
    assert quiet.published is not None and leader.published is None
    assert settle(pair, 7 * LIMIT) == [True, True]


def test_a_quiet_host_asks_seldom_for_those_that_report(
    storage: LocalStorage, make_plan: Callable[..., HostPlan], hosts: Callable[..., list[Host]]
) -> None:
    leader, quiet = hosts(2)
    leader.reports(1)
    quiet.joins()
    asked = Counting(storage)
    watch = StallWatch(make_plan(hosts=2, output=storage.url, stall_timeout=LIMIT), 1, asked, NO_GROUP, lambda: None)
    assert not any(watch.is_stalled(float(second)) for second in range(int(3 * LIMIT)))
    assert 0 < asked.asked[f"get {layout.silence(3, 0)}"] <= 2 * REFRESHED + 2


def test_any_sign_of_life_ends_a_silence(hosts: Callable[..., list[Host]]) -> None:
    (host,) = hosts(1)
    signs: list[Callable[[], None]] = [
        host.joins,
        lambda: host.reports(1),
        lambda: host.reports(1, reported_after=9.0),
        lambda: host.reports(1, reported_after=9.0, saved_step=0),
        lambda: host.scratch(Scratch.EVENTS, b'{"event": "joined"}\n{"event": "restored"}\n'),
    ]
    for number, sign in enumerate(signs):
        sign()
        begin = number * 2 * LIMIT
        look([host], begin)
        assert host.published is None
        look([host], begin + LIMIT, begin + LIMIT + SOON_SECONDS)
        assert host.published is not None
    assert host.begun == [1]


def test_a_silence_ends_with_the_program(hosts: Callable[..., list[Host]]) -> None:
    (host,) = hosts(1)
    host.reports(1)
    look([host], 0.0, LIMIT, LIMIT + SOON_SECONDS)
    host.watch.end_silence()
    assert host.published is None and host.watch.silence is None


def test_hosts_that_have_ended_or_never_began_do_not_count(hosts: Callable[..., list[Host]]) -> None:
    still, ended, never = trio = hosts(3)
    still.reports(4)
    ended.reports(9)
    look(trio, 0.0)
    ended.ends()
    assert settle([still], LIMIT) == [True]
    said = still.published
    assert said is not None and (said.step, said.reported_after, said.is_agreed) == (4, 4.0, True)


def test_who_compiles_is_given_longer(hosts: Callable[..., list[Host]], storage: LocalStorage) -> None:
    (host, other) = hosts(2)
    host.reports(1)
    other.reports(1)
    look([host], 0.0)
    busy = silent(LIMIT, activity=Activity.COMPILING.value)
    storage.put(layout.silence(3, 1), write_json(asdict(busy)))
    assert settle([host], 2 * LIMIT) == [False]
    storage.put(layout.silence(3, 1), write_json(asdict(silent(LONGER * LIMIT, activity="compiling"))))
    assert settle([host], (LONGER + 1) * LIMIT) == [True]


def test_a_silence_that_cannot_be_read_is_none(hosts: Callable[..., list[Host]], storage: LocalStorage) -> None:
    (host, other) = hosts(2)
    host.reports(1)
    other.reports(1)
    look([host], 0.0)
    long = f'"is_agreed":true,"silent_for":{9 * LIMIT}'
    unknown = f'{{"version":1,{long},"activity":"dancing"}}'.encode()
    for raw in (b"", b"{", b'{"version":1}', b'{"version":99,"silent_for":1.0}', unknown):
        storage.put(layout.silence(3, 1), raw)
        assert settle([host], 2 * LIMIT) == [False]


def test_who_agreed_takes_it_back_when_another_one_lives(hosts: Callable[..., list[Host]]) -> None:
    host, other = pair = hosts(2)
    host.reports(1)
    other.reports(1)
    look(pair, 0.0)
    look(pair, LIMIT, LIMIT + SOON_SECONDS, LIMIT + 2, LIMIT + 2 + SOON_SECONDS)
    other.reports(2)
    look(pair, LIMIT + 10, LIMIT + 11, LIMIT + 12)
    assert host.published is not None and not host.published.is_agreed and other.published is None


def test_a_full_disk_ends_no_program(
    hosts: Callable[..., list[Host]], storage: LocalStorage, capsys: pytest.CaptureFixture[str]
) -> None:
    (host,) = hosts(1)
    host.reports(1)
    look([host], 0.0)
    storage.put(f"{layout.silence(3, 0)}/in-the-way", b"")
    assert settle([host], LIMIT) == [True]
    assert "Could not write" in capsys.readouterr().err


def test_of_hosts_that_cannot_be_seen_nobody_says_that_they_are_silent(hosts: Callable[..., list[Host]]) -> None:
    one, other = made = hosts(2)
    for host in made:
        host.joins()
    look(made, 0.0)
    other.storage.path(layout.silence(3, 1)).mkdir(parents=True)  # to read it is refused
    assert settle([one], LIMIT) == settle([one], 3 * LIMIT) == [False]
    other.storage.path(layout.silence(3, 1)).rmdir()
    other.ends()
    assert settle([one], 4 * LIMIT) == [True]
