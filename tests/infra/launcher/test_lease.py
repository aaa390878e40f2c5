"""One driver at a time, and none that is gone keeps a job."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.launcher.lease import (
    LAPSED_SECONDS,
    RENEW_SECONDS,
    Driver,
    Lease,
    Pulse,
    born,
    renewed_at,
    sign_of_life,
)
from prefect_tpu.infra.storage import LocalStorage


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def elsewhere(storage: LocalStorage, **changes: Any) -> None:
    """A lease that somebody on another machine holds."""
    data = {"token": "theirs", "host": "another-machine", "pid": 1, "born": 0.0, "renewals": 1, **changes}
    storage.put(layout.LEASE, json.dumps(data).encode())


def test_the_first_one_drives_and_the_second_learns_who_does(storage: LocalStorage, clock: Clock) -> None:
    first, second = Lease(storage, clock), Lease(storage, clock)
    assert first.take() is None
    assert first.take() is None
    holder = second.take()
    assert holder is not None
    assert str(holder) == f"process {os.getpid()} on {socket.gethostname()}"
    assert first.successor() is None
    assert second.successor() is not None
    first.give_up()
    assert storage.get(layout.LEASE) is None
    assert second.take() is None


def test_a_lease_lapses_when_it_was_not_renewed_on_our_own_clock(storage: LocalStorage, clock: Clock) -> None:
    elsewhere(storage)
    lease = Lease(storage, clock)
    assert lease.take() is not None
    clock.now += LAPSED_SECONDS
    assert lease.take() is not None
    clock.now += 0.1
    assert lease.take() is None


def test_a_lease_that_is_renewed_never_lapses(storage: LocalStorage, clock: Clock) -> None:
    lease = Lease(storage, clock)
    for renewals in range(20):
        elsewhere(storage, renewals=renewals)
        assert lease.take() is not None
        clock.now += RENEW_SECONDS
    assert LAPSED_SECONDS > 2 * RENEW_SECONDS


def test_a_holder_that_was_away_finds_its_lease_lost_and_leaves_the_other_ones_alone(
    storage: LocalStorage, clock: Clock
) -> None:
    mine = Lease(storage, clock)
    assert mine.take() is None
    elsewhere(storage)
    assert mine.successor() is not None
    mine.give_up()
    assert b"theirs" in (storage.get(layout.LEASE) or b"")


def test_a_dead_holder_of_this_machine_is_not_waited_for(storage: LocalStorage, clock: Clock) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        elsewhere(storage, host=socket.gethostname(), pid=child.pid, born=born(child.pid))
        assert Lease(storage, clock).take() is not None
    finally:
        child.kill()
        child.wait()
        if child.stdin:
            child.stdin.close()
    assert Lease(storage, clock).take() is None


def test_a_killed_holder_that_nobody_waited_for_is_dead(storage: LocalStorage, clock: Clock) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
        elsewhere(storage, host=socket.gethostname(), pid=child.pid, born=born(child.pid))
        assert Lease(storage, clock).take() is None
    finally:
        child.wait()


def test_a_process_id_that_is_used_again_is_another_process(storage: LocalStorage, clock: Clock) -> None:
    me = {"token": "t", "host": socket.gethostname(), "pid": os.getpid()}
    began = born(os.getpid())
    assert not Driver(**me, born=began).is_dead
    assert not Driver(**me, born=began + 1.0).is_dead, "the machine's start is known in whole seconds"
    assert Driver(**me, born=began - 2.0).is_dead
    elsewhere(storage, **{**me, "born": began - 2.0})
    assert Lease(storage, clock).take() is None


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b"null", b'{"token":"t"}'])
def test_a_damaged_lease_is_as_good_as_none(storage: LocalStorage, clock: Clock, raw: bytes) -> None:
    storage.put(layout.LEASE, raw)
    lease = Lease(storage, clock)
    assert lease.successor() is None
    assert lease.take() is None


def test_every_renewal_changes_the_bytes(storage: LocalStorage, clock: Clock) -> None:
    lease = Lease(storage, clock)
    seen = set()
    for _ in range(3):
        lease.renew()
        seen.add(storage.get(layout.LEASE))
    assert len(seen) == 3


def test_of_a_driver_on_another_machine_only_its_renewals_are_seen(storage: LocalStorage, clock: Clock) -> None:
    elsewhere(storage)
    pulse = Pulse(storage, clock)
    for renewals in range(4):
        elsewhere(storage, renewals=renewals)
        driver = pulse.driver()
        assert driver is not None and not driver.is_here
        clock.now += LAPSED_SECONDS
    assert pulse.driver() is not None
    clock.now += 0.1
    assert pulse.driver() is None, "it is not known that it lives"
    elsewhere(storage, renewals=9)
    assert pulse.driver() is not None, "it stood still"
    storage.delete(layout.LEASE)
    assert pulse.driver() is None


def test_a_lease_that_points_to_a_heartbeat_lasts_as_long_as_that(storage: LocalStorage, clock: Clock) -> None:
    output = LocalStorage(storage.root.parent)
    elsewhere(storage, heartbeat="theirs")
    other, pulse = Lease(storage, clock), Pulse(storage, clock)
    for beat in range(10):
        output.put(layout.heartbeat("theirs"), b"%d" % beat)
        assert other.take() is not None and pulse.driver() is not None
        clock.now += RENEW_SECONDS
    first = sign_of_life(storage)
    output.put(layout.heartbeat("theirs"), b"last")
    assert sign_of_life(storage) != first and first is not None
    assert other.take() is not None and pulse.driver() is not None
    clock.now += LAPSED_SECONDS + 0.1
    assert pulse.driver() is None and other.take() is None
    assert b"heartbeat" not in (storage.get(layout.LEASE) or b""), "it renews its own"


def test_a_lease_whose_heartbeat_is_gone_lapses(storage: LocalStorage, clock: Clock) -> None:
    elsewhere(storage, heartbeat="theirs")
    other = Lease(storage, clock)
    assert other.take() is not None
    clock.now += LAPSED_SECONDS + 0.1
    assert other.take() is None


def test_the_newer_sign_of_life_counts(storage: LocalStorage) -> None:
    assert renewed_at(storage) is None and sign_of_life(storage) is None
    elsewhere(storage, heartbeat="theirs")
    os.utime(storage.path(layout.LEASE), (1000.0, 1000.0))
    assert renewed_at(storage) == 1000.0
    beat = LocalStorage(storage.root.parent)
    beat.put(layout.heartbeat("theirs"), b"1")
    os.utime(beat.path(layout.heartbeat("theirs")), (2000.0, 2000.0))
    assert renewed_at(storage) == 2000.0


def test_who_never_had_it_takes_nobody_s_away(storage: LocalStorage, clock: Clock) -> None:
    """Between a look that finds none and the deletion, somebody else may have taken it."""
    elsewhere(storage)
    asks = Lease(storage, clock)
    assert asks.take() is not None
    storage.delete(layout.LEASE)
    asks.give_up()
    elsewhere(storage, token="a third")
    asks.give_up()
    assert sign_of_life(storage) is not None


def test_a_holder_that_is_known_to_be_gone_is_not_waited_for(storage: LocalStorage, clock: Clock) -> None:
    elsewhere(storage, heartbeat="theirs")
    storage.put(layout.heartbeat("theirs"), b"1")
    first = Lease(storage, clock)
    assert first.take() is not None
    elsewhere(storage, token="a third", heartbeat="another")
    assert first.take(is_silent=True) is not None, "somebody else has it since"
    assert first.take(is_silent=True) is None
