"""What one driver knows of its offers: refusals, waiting, and what is said of a slice that comes instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher.offers import Offers
from prefect_tpu.infra.state import Offer, Waiting

A, B = Offer(accelerator="v6e-16"), Offer(accelerator="cpu")
TAKEN = Waiting(reason="all are taken.")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def offers_of(make_job: Callable[..., SliceJob], clock: Clock) -> Callable[..., Offers]:
    def make(*accelerators: str, **changes: object) -> Offers:
        return Offers(make_job(accelerators=accelerators, provision_timeout=10.0, **changes), clock)

    return make


def test_nothing_is_refused_at_first(offers_of: Callable[..., Offers]) -> None:
    offers = offers_of("v6e-16", "cpu")
    assert (offers.all, offers.refused, offers.waited, offers.tire()) == ((A, B), {}, 0.0, None)


def test_what_a_drill_took_is_refused_too(offers_of: Callable[..., Offers]) -> None:
    offers = offers_of("v6e-16", "cpu")
    offers.refuse(B, "too large.")
    offers.rehearsed = {A: "drill stockout@start,host=0: no capacity."}
    assert offers.refused == {A: "drill stockout@start,host=0: no capacity.", B: "too large."}


def test_what_is_barred_is_refused_too(offers_of: Callable[..., Offers]) -> None:
    offers = offers_of("v6e-16", "cpu")
    offers.refuse(A, "no permission.", is_barred=True)
    offers.refuse(B, "too large.")
    assert (set(offers.refused), offers.barred) == ({A, B}, {A})


def test_the_time_waited_runs_until_a_slice_is_had(offers_of: Callable[..., Offers], clock: Clock) -> None:
    offers = offers_of("v6e-16", "cpu")
    offers.wait_for(A, TAKEN)
    clock.now += 4.0
    offers.wait_for(A, TAKEN)
    assert offers.waited == 4.0
    offers.got()
    assert offers.waited == 0.0


def test_after_too_long_the_next_offer_has_its_turn_and_the_last_one_is_kept(
    offers_of: Callable[..., Offers], clock: Clock
) -> None:
    offers = offers_of("v6e-16", "cpu")
    offers.wait_for(A, TAKEN)
    clock.now += 10.0
    assert offers.tire() is None
    clock.now += 0.1
    assert offers.tire() == A
    assert offers.refused == {A: "no slice within 10 s (provision_timeout): all are taken."}
    assert offers.waited == 0.0, "the next one has all the time again"
    offers.wait_for(B, TAKEN)
    clock.now += 99.0
    assert offers.tire() is None, "of the last one the job itself tires"
    assert offers.waited == 99.0


def test_it_is_said_what_a_slice_came_instead_of(offers_of: Callable[..., Offers]) -> None:
    offers = offers_of("v6e-16", "v6e-8", "cpu")
    assert offers.instead_of(A) is None
    offers.refuse(A, "it is gone.")
    assert offers.instead_of(B) == "v6e-16 cannot be had: it is gone"
    offers.refuse(Offer(accelerator="v6e-8"), "too large")
    assert offers.instead_of(B) == "v6e-16 cannot be had: it is gone; v6e-8 cannot be had: too large"
    assert offers.instead_of(A) is None
    assert offers.instead_of(Offer(accelerator="v5e-8")) is None, "a plan of an earlier list"
