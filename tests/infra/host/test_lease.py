"""A host notices that nobody drives its job, by its own clock alone."""

from __future__ import annotations

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.host.lease import LeaseWatch
from prefect_tpu.infra.storage import LocalStorage


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(storage: LocalStorage, clock: Clock) -> LeaseWatch:
    return LeaseWatch(storage, orphan_after=60.0, clock=clock)


def test_a_lease_that_changes_keeps_the_host(storage: LocalStorage, clock: Clock, watch: LeaseWatch) -> None:
    for renewal in range(10):
        storage.put(layout.LEASE, b"%d" % renewal)
        assert not watch.is_orphaned()
        clock.now += 59.0
        assert not watch.is_orphaned()


def test_one_that_stays_the_same_makes_an_orphan(storage: LocalStorage, clock: Clock, watch: LeaseWatch) -> None:
    storage.put(layout.LEASE, b"1")
    assert not watch.is_orphaned()
    clock.now += 60.0
    assert not watch.is_orphaned()
    clock.now += 0.1
    assert watch.is_orphaned()
    storage.put(layout.LEASE, b"2")
    assert not watch.is_orphaned()


def test_no_lease_at_all_makes_an_orphan_after_the_same_time(clock: Clock, watch: LeaseWatch) -> None:
    clock.now += 60.0
    assert not watch.is_orphaned()
    clock.now += 0.1
    assert watch.is_orphaned()


def test_a_lease_given_up_and_one_that_cannot_be_read_did_not_change(
    storage: LocalStorage, clock: Clock, watch: LeaseWatch
) -> None:
    storage.put(layout.LEASE, b"1")
    assert not watch.is_orphaned()
    clock.now += 30.0
    storage.delete(layout.LEASE)
    assert not watch.is_orphaned()
    storage.put(f"{layout.LEASE}/a-folder-cannot-be-read", b"")
    assert not watch.is_orphaned()
    clock.now += 30.1
    assert watch.is_orphaned()
