"""What one driver knows of its offers: refusals, waiting, and what is said of a slice that comes instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary, SliceJob
from prefect_tpu.infra.launcher.offers import Offers
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.policy.capacity import LONGEST_SILENCE_SECONDS, REST_SECONDS, choose
from prefect_tpu.infra.policy.failure_kinds import failure
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


def test_what_all_that_were_asked_lack_is_what_the_job_is_short_of(offers_of: Callable[..., Offers]) -> None:
    offers = offers_of("v6e-16", "cpu")
    assert offers.short_of is FailureKind.NO_CAPACITY
    offers.wait_for(A, Waiting(reason="exceeded", kind=FailureKind.NO_QUOTA))
    assert offers.short_of is FailureKind.NO_QUOTA
    offers.wait_for(B, TAKEN)
    assert offers.short_of is FailureKind.NO_CAPACITY


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


DRY = Waiting(reason="no capacity", is_dry=True)


def test_one_without_capacity_rests_and_the_time_without_a_slice_runs_over_all(
    offers_of: Callable[..., Offers], clock: Clock
) -> None:
    offers = offers_of("v6e-16", "cpu")
    assert offers.rest == REST_SECONDS
    offers.wait_for(A, DRY)
    clock.now += 4.0
    offers.wait_for(B, DRY)
    clock.now += 1.0
    assert offers.dry == {A: REST_SECONDS - 5.0, B: REST_SECONDS - 1.0}
    assert (offers.waited, offers.lacking) == (5.0, {A: "no capacity", B: "no capacity"})
    clock.now += 99.0
    assert (offers.tire(), offers.waited) == (None, 104.0), "none of them keeps its turn, so none tires"


def test_on_a_dry_day_each_offer_is_asked_in_turn_and_not_often(offers_of: Callable[..., Offers], clock: Clock) -> None:
    offers, asked = offers_of("v6e-16", "cpu"), list[Offer]()
    end = clock.now + 86_400.0
    while clock.now < end:
        chosen = choose(offers.all, {}, dry=offers.dry)
        assert isinstance(chosen, Offer)
        rest = offers.dry.get(chosen, 0.0)
        clock.now += max(0.0, rest)
        if rest <= 0.0:
            asked.append(chosen)
            offers.wait_for(chosen, DRY)
            clock.now += 30.0
    assert asked == [(A, B)[index % 2] for index in range(len(asked))]
    assert 86_400.0 / LONGEST_SILENCE_SECONDS < asked.count(A) < 150


def test_one_that_was_dry_and_has_a_slice_on_its_way_is_dry_no_more(
    offers_of: Callable[..., Offers], clock: Clock
) -> None:
    offers = offers_of("v6e-16", "cpu")
    for _ in range(3):
        offers.wait_for(A, DRY)
    assert offers.dry == {A: 4 * REST_SECONDS}
    offers.wait_for(A, TAKEN)
    assert (offers.dry, offers.awaited) == ({}, A)
    offers.wait_for(A, DRY)
    assert (offers.dry, offers.awaited) == ({A: REST_SECONDS}, None)


def test_what_is_waited_for_tires_only_where_another_one_was_never_asked(
    offers_of: Callable[..., Offers], clock: Clock
) -> None:
    offers = offers_of("v6e-16", "cpu")
    offers.wait_for(A, DRY)
    offers.wait_for(B, TAKEN)
    clock.now += 99.0
    assert (offers.tire(), offers.waited) == (None, 99.0), "the time is over for both"


def test_once_there_is_a_slice_only_what_rests_is_remembered(offers_of: Callable[..., Offers], clock: Clock) -> None:
    offers = offers_of("v6e-16", "cpu")
    offers.wait_for(A, DRY)
    clock.now += REST_SECONDS - 1.0
    offers.wait_for(B, DRY)
    offers.got()
    assert (set(offers.dry), offers.waited) == ({A, B}, 0.0)
    clock.now += 2.0
    offers.got()
    assert set(offers.dry) == {B}
    assert offers.instead_of(B) == "v6e-16 gave no slice: no capacity", "the attempt that begins is told of it"
    offers.wait_for(B, TAKEN)
    assert offers.lacking == {B: "all are taken."}, "what was said before the last slice is old"


def test_offers_are_named_by_what_tells_them_apart(offers_of: Callable[..., Offers]) -> None:
    pods = PodSettings(image="python", cluster="east", fallback_clusters=("west",), zones=("us-east5-a",))
    offers = offers_of("v6e-16", backend="jobset", pods=pods)
    assert [offers.named(offer) for offer in offers.all] == ["v6e-16 in cluster east", "v6e-16 in cluster west"]
    assert offers.are_elsewhere(offers.all[0]) and not offers_of("v6e-16", "cpu").are_elsewhere(A)


def test_what_an_attempt_waited_for_in_vain_counts_as_what_it_came_instead_of(
    offers_of: Callable[..., Offers],
) -> None:
    offers = offers_of("v6e-16", "cpu")
    cause = failure(FailureKind.NO_CAPACITY, "GCE out of resources.")
    ended = AttemptSummary(
        number=1, accelerator="v6e-16", started=0.0, ended=1.0, outcome="no_capacity", failure=cause
    )  # fmt: skip
    assert offers.instead_of(B, [ended]) == "v6e-16 gave no slice: GCE out of resources"
    assert offers.instead_of(B, [ended, replace(ended, failure=None)]) is None, "a slice was had since"


def test_it_is_said_what_a_slice_came_instead_of(offers_of: Callable[..., Offers]) -> None:
    offers = offers_of("v6e-16", "v6e-8", "cpu")
    assert offers.instead_of(A) is None
    offers.refuse(A, "it is gone.")
    assert offers.instead_of(B) == "v6e-16 cannot be had: it is gone"
    offers.refuse(Offer(accelerator="v6e-8"), "too large")
    assert offers.instead_of(B) == "v6e-16 cannot be had: it is gone; v6e-8 cannot be had: too large"
    assert offers.instead_of(A) is None
    assert offers.instead_of(Offer(accelerator="v5e-8")) is None, "a plan of an earlier list"
