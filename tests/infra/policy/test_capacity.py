"""Which offer is next, and which places are left alone for a while."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.contract import ExitCode, HostRecord
from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.policy.capacity import (
    AVOID_SECONDS,
    LONGEST_REST_SECONDS,
    MOST_AVOIDED,
    REST_SECONDS,
    choose,
    in_a_row,
    in_vain,
    lost_places,
    new_places,
    none_of,
    resting,
    said_in_vain,
    to_avoid,
)
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.state import Cause, HostObservation, HostPhase, Observation, Offer

A, B, C = (Offer(accelerator=name) for name in ("v6e-16", "v5e-16", "v5p-32"))
offers = st.sampled_from(list(permutations([A, B, C])))


def test_the_first_offer_that_was_not_refused() -> None:
    assert choose([A, B, C], {}) == A
    assert choose([A, B, C], {A: "none left"}) == B
    assert choose([B, A], {}) == B


def test_one_that_has_just_failed_is_tried_last() -> None:
    assert choose([A, B], {}, in_vain=[A]) == B
    assert choose([A], {}, in_vain=[A]) == A
    assert choose([A, B], {B: "none left"}, in_vain=[A]) == A


def test_of_those_tried_in_vain_the_oldest_has_its_turn() -> None:
    assert choose([A, B, C], {}, in_vain=[B, A]) == C
    assert choose([A, B, C], {}, in_vain=[B, C, A]) == B
    assert choose([A, B], {}, in_vain=[A, B, A]) == B


def attempt(number: int, kind: FailureKind | None, *places: str) -> AttemptSummary:
    """Ended after 100 seconds times its number."""
    cause = kind and failure(kind, "it happened")
    return AttemptSummary(
        number=number,
        accelerator="v6e-16",
        started=0.0,
        ended=100.0 * number,
        outcome="x",
        failure=cause,
        places=places,
    )


def test_attempts_in_a_row_that_had_no_slice() -> None:
    lost, full, unplaced = (
        attempt(number, kind)
        for number, kind in enumerate(
            (FailureKind.HOST_LOST, FailureKind.NO_CAPACITY, FailureKind.UNSCHEDULABLE), start=1
        )
    )
    assert in_a_row([]) == in_a_row([full, lost]) == in_a_row([full, attempt(9, None)]) == ()
    assert in_a_row([full, lost, full, unplaced]) == (full, unplaced)


def test_one_that_found_a_place_to_keep_away_from_was_not_in_vain() -> None:
    first = attempt(1, FailureKind.UNSCHEDULABLE, "a")
    again = attempt(2, FailureKind.UNSCHEDULABLE, "a")
    nowhere = attempt(3, FailureKind.UNSCHEDULABLE)
    full = attempt(4, FailureKind.NO_CAPACITY, "b")
    assert in_vain([first]) == () and new_places([first]) == ("a",)
    assert in_vain([first, again]) == (again,) and new_places([first, again]) == ()
    assert in_vain([first, nowhere, full]) == (nowhere, full)


def test_places_are_avoided_newest_first_each_once_for_a_while_and_not_all() -> None:
    one, two, three = (
        attempt(1, FailureKind.HOST_LOST, "a", "b"),
        attempt(2, FailureKind.MAINTENANCE, "c", "b"),
        attempt(3, FailureKind.PROGRAM_ERROR),
    )
    assert to_avoid([one, two, three], now=300.0) == ("c", "b", "a")
    assert to_avoid([one, two, three], now=100.0 + AVOID_SECONDS) == ("c", "b", "a")
    assert to_avoid([one, two, three], now=101.0 + AVOID_SECONDS) == ("c", "b")
    assert to_avoid([one, two, three], now=301.0 + AVOID_SECONDS) == ()
    many = attempt(4, FailureKind.PREEMPTED, *map(str, range(99)))
    assert len(to_avoid([many], now=400.0)) == MOST_AVOIDED


def test_the_places_of_lost_hosts_are_those_the_platform_took_or_that_are_gone() -> None:
    taken = Cause(kind=FailureKind.PREEMPTED, message="taint")
    record = HostRecord(attempt=1, host=3, exit_code=80)
    unbegun = HostRecord(attempt=1, host=7, exit_code=ExitCode.CANNOT_BEGIN)
    hosts = (
        HostObservation(host=0, phase=HostPhase.RUNNING, place="runs"),
        HostObservation(host=1, phase=HostPhase.ENDED, place="taken", cause=taken),
        HostObservation(host=2, phase=HostPhase.ENDED, place="gone"),
        HostObservation(host=3, phase=HostPhase.ENDED, place="raised", record=record),
        HostObservation(host=4, phase=HostPhase.RUNNING, place="silent", cause=taken),
        HostObservation(host=5, phase=HostPhase.ENDED),
        HostObservation(host=6, phase=HostPhase.ENDED, place="after", cause=taken, is_consequence=True),
        HostObservation(host=7, phase=HostPhase.ENDED, place="full", record=unbegun),
    )
    assert lost_places(Observation(attempt=1, hosts=hosts)) == ("taken", "gone", "silent", "full")


def test_spot_and_on_demand_are_two_offers() -> None:
    spot = Offer(accelerator="v6e-16:spot")
    assert choose([A, spot], {A: "none left"}) == spot


def test_giving_up_lists_every_reason() -> None:
    end = choose([A, B], {A: "none left.", B: "no quota."})
    assert isinstance(end, Failure)
    assert end.kind is FailureKind.NO_CAPACITY
    assert end.evidence == ("v6e-16: none left.", "v5e-16: no quota.")
    assert "none left. v5e-16: no quota." in end.message
    assert end.advice.startswith("Waiting does not help"), "what is refused cannot be had however long one waits"


def test_where_no_offer_lacks_a_slice_it_is_the_job_that_is_refused() -> None:
    refused = {A: "no permission.", B: "none left."}
    kinds = [end.kind for barred in ({A, B}, {A}) if isinstance(end := choose([A, B], refused, barred=barred), Failure)]
    assert kinds == [FailureKind.REFUSED, FailureKind.NO_CAPACITY]
    one = choose([A, B], {A: "no permission."}, barred={A})
    assert one == B


def test_an_offer_without_capacity_rests_while_another_one_may_be_asked() -> None:
    assert choose([A, B, C], {}, dry={A: 60.0}) == B
    assert choose([A, B, C], {C: "no"}, dry={A: 60.0, B: 9.0}) == B, "where all rest, the one that wakes first"
    assert choose([A, B, C], {}, dry={A: 0.0}) == B, "one that was never asked comes before one that is awake again"
    assert choose([A, B, C], {}, dry={A: -1.0, B: -2.0, C: 5.0}) == B, "who was asked longest ago"
    assert choose([A, B], {}, in_vain=[A], dry={B: 5.0}) == A, "and one that was tried in vain before one that rests"


@given(st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=3, unique=True), st.lists(st.floats(0.1, 90.0)))
@settings(max_examples=60)
def test_no_offer_starves(order: list[Offer], pauses: list[float]) -> None:
    """However long an answer takes: between two questions to one offer, every other one is asked."""
    now, wakes, asked = 0.0, dict[Offer, float](), list[Offer]()
    for pause in pauses:
        chosen = choose(order, {}, dry={offer: moment - now for offer, moment in wakes.items()})
        assert isinstance(chosen, Offer)
        now = max(now, wakes.get(chosen, now)) + pause
        wakes[chosen] = now + REST_SECONDS
        asked.append(chosen)
    assert asked == [order[index % len(order)] for index in range(len(pauses))]


def tried(number: int, offer: Offer, at: float, kind: FailureKind = FailureKind.NO_CAPACITY) -> AttemptSummary:
    cause = failure(kind, f"attempt {number} had none")
    return AttemptSummary(
        number=number, accelerator=offer.accelerator, cluster=offer.cluster, zone=offer.zone,
        started=at - 5.0, ended=at, outcome="x", failure=cause,
    )  # fmt: skip


def test_an_offer_that_an_attempt_tried_in_vain_rests_twice_as_long_each_time() -> None:
    here, there = (Offer(accelerator="v6e-16", zone=f"us-east5-{letter}") for letter in "ab")
    ended = [tried(1, here, 100.0), tried(2, there, 130.0), tried(3, here, 200.0)]
    assert resting(ended, now=210.0) == {here: 2 * REST_SECONDS - 10.0, there: REST_SECONDS - 80.0}
    assert resting(ended, now=210.0, seconds=0.5) == {here: -9.0, there: -79.5}
    assert resting([tried(n, here, 100.0) for n in range(99)], now=100.0) == {here: LONGEST_REST_SECONDS}
    assert resting([*ended, tried(4, here, 300.0, FailureKind.HOST_LOST)], now=300.0) == {}
    assert said_in_vain(ended) == {here: "attempt 3 had none", there: "attempt 2 had none"}


@given(st.sets(st.sampled_from([A, B, C]), min_size=1))
def test_every_reason_is_in_the_end(asked: set[Offer]) -> None:
    end = none_of([A, B, C], {offer: f"{offer.accelerator[:3]} is short." for offer in asked}, FailureKind.NO_QUOTA)
    assert end.kind is FailureKind.NO_QUOTA
    assert end.evidence == tuple(
        f"{o.accelerator}: {o.accelerator[:3]} is short." for o in (A, B, C) if o in asked
    )  # fmt: skip
    assert end.message == " ".join(("No slice is to be had.", *end.evidence))


def test_a_reason_that_names_its_offer_is_not_named_twice() -> None:
    end = none_of([A], {A: "No slice of v6e-16 within 60 s"}, FailureKind.NO_CAPACITY, "It is late.")
    assert end.message == "It is late. No slice of v6e-16 within 60 s."


@given(offers, st.sets(st.sampled_from([A, B, C])), st.lists(st.sampled_from([A, B, C]), max_size=4))
@settings(max_examples=60)
def test_a_refused_offer_is_never_chosen_and_an_open_one_always(
    order: tuple[Offer, ...], refused: set[Offer], in_vain: list[Offer]
) -> None:
    chosen = choose(order, dict.fromkeys(refused, "no"), in_vain)
    if isinstance(chosen, Failure):
        assert refused == {A, B, C}
    else:
        assert chosen not in refused
        assert chosen not in in_vain or refused | set(in_vain) == {A, B, C}
