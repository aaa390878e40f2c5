"""Which offer is next."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.policy.capacity import choose
from prefect_tpu.infra.state import Offer

A, B, C = (Offer(accelerator=name) for name in ("v6e-16", "v5e-16", "v5p-32"))
offers = st.sampled_from(list(permutations([A, B, C])))


def test_the_first_offer_that_was_not_refused() -> None:
    assert choose([A, B, C], {}) == A
    assert choose([A, B, C], {A: "none left"}) == B
    assert choose([B, A], {}) == B


def test_one_that_has_just_failed_is_tried_last() -> None:
    assert choose([A, B], {}, last_failed=A) == B
    assert choose([A], {}, last_failed=A) == A
    assert choose([A, B], {B: "none left"}, last_failed=A) == A


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


@given(offers, st.sets(st.sampled_from([A, B, C])), st.none() | st.sampled_from([A, B, C]))
@settings(max_examples=60)
def test_a_refused_offer_is_never_chosen_and_an_open_one_always(
    order: tuple[Offer, ...], refused: set[Offer], last_failed: Offer | None
) -> None:
    chosen = choose(order, dict.fromkeys(refused, "no"), last_failed)
    if isinstance(chosen, Failure):
        assert refused == {A, B, C}
    else:
        assert chosen not in refused
        assert chosen != last_failed or refused | {chosen} == {A, B, C}
