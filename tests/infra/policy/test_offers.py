"""The offers of a job, in their order, and by what people tell one from another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.drills import parse_drill
from prefect_tpu.infra.job import AttemptSummary, Program, SliceJob
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.policy.offers import named, offer_of, offers_of, where
from prefect_tpu.infra.rehearsal import Note
from prefect_tpu.infra.state import Offer

EAST, CENTRAL = "gke://research/us-east5/a", "gke_research_us-central1-a_b"


def job(*accelerators: str, **pods: Any) -> SliceJob:
    settings = PodSettings(image="image", **pods) if pods else None
    program = Program(kind="module", target="m:f")
    return SliceJob(name="digits", program=program, accelerators=accelerators, pods=settings)


def test_without_a_choice_of_places_there_is_one_offer_for_each_accelerator() -> None:
    assert offers_of(job("v6e-16", "cpu")) == (Offer(accelerator="v6e-16"), Offer(accelerator="cpu"))
    assert offers_of(job("v6e-16", cluster="here")) == (Offer(accelerator="v6e-16", cluster="here"),)


def test_accelerators_come_first_then_clusters_then_zones() -> None:
    asked = job("v6e-16", "v6e-8", cluster="a", fallback_clusters=("b",), zones=("us-east5-b", "us-east5-a"))
    order = [(o.accelerator, o.cluster, o.zone and o.zone[-1]) for o in offers_of(asked)]
    places = [("a", "b"), ("a", "a"), ("b", "b"), ("b", "a")]
    assert order == [(name, *place) for name in ("v6e-16", "v6e-8") for place in places]


def test_a_zone_is_asked_for_only_of_clusters_of_its_region() -> None:
    asked = job("v6e-16", cluster=EAST, fallback_clusters=(CENTRAL,), zones=("us-central1-ai1a", "us-east5-b"))
    assert [(o.cluster, o.zone) for o in offers_of(asked)] == [(EAST, "us-east5-b"), (CENTRAL, "us-central1-ai1a")]


def test_an_accelerator_named_twice_is_asked_for_once() -> None:
    assert len(offers_of(job("v6e-16", "v6e-16", cluster="a", fallback_clusters=("b",)))) == 2


def test_what_was_had_of_an_offer_tells_it(make_plan: Callable[..., HostPlan]) -> None:
    offer = Offer(accelerator="v6e-16", cluster=EAST, zone="us-east5-b")
    place = {"accelerator": "v6e-16", "cluster": EAST, "zone": "us-east5-b"}
    ended = AttemptSummary(number=1, started=0.0, ended=1.0, outcome="x", failure=None, **place)  # type: ignore[arg-type]
    note = Note(drill=parse_drill("stockout@start"), attempt=1, **place)  # type: ignore[arg-type]
    assert offer_of(make_plan(**place)) == offer_of(ended) == offer_of(Note.from_json(note.to_json())) == offer


def test_only_what_tells_an_offer_apart_is_said() -> None:
    spot = "v6e-16:spot"
    one = Offer(accelerator=spot, cluster=EAST, zone="us-east5-b")
    other_zone = Offer(accelerator=spot, cluster=EAST, zone="us-east5-a")
    other_cluster = Offer(accelerator=spot, cluster="training", zone="us-east5-b")
    at_hand = Offer(accelerator=spot, zone="us-east5-b")
    assert named(one, [one]) == named(one, []) == spot
    assert named(one, [one, other_zone]) == f"{spot} in us-east5-b"
    assert named(one, [one, other_cluster]) == f"{spot} in {EAST}"
    assert named(one, [other_zone, other_cluster]) == f"{spot} in us-east5-b of {EAST}"
    assert where(other_cluster, [one]) == "cluster training"
    assert where(at_hand, [one]) == "the cluster at hand"


PLACES = st.builds(
    Offer,
    accelerator=st.sampled_from(["v6e-16", "v6e-8"]),
    cluster=st.sampled_from([None, "a", EAST]),
    zone=st.sampled_from([None, "us-east5-a", "us-east5-b"]),
)


@given(st.sets(PLACES, min_size=2))
def test_zones_and_clusters_that_are_all_given_tell_every_offer_apart(offers: set[Offer]) -> None:
    whole = {offer for offer in offers if offer.zone is not None}
    assert len({named(offer, whole) for offer in whole}) == len(whole)
