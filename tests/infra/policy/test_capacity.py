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
    MOST_AVOIDED,
    choose,
    in_a_row,
    in_vain,
    lost_places,
    new_places,
    to_avoid,
)
from prefect_tpu.infra.policy.failures import failure
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
    spot = Offer(accelerator="v6e-16", capacity="spot")
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
