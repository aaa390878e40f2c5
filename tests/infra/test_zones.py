"""Where a cluster is, by its name, and which zones it may have."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.zones import location_of, may_have, region_of, zone_in


@pytest.mark.parametrize(
    ("cluster", "location"),
    [
        ("gke://research/us-east5-b/training", "us-east5-b"),
        ("gke://example.com:research/us-east5/training", "us-east5"),
        ("gke_research_us-central1-ai1a_a-b", "us-central1-ai1a"),
        ("training", None),
        ("gke://research/training", None),
        (None, None),
    ],
)
def test_the_location_stands_in_the_names_that_google_gives(cluster: str | None, location: str | None) -> None:
    assert location_of(cluster) == location


def test_a_region_is_the_beginning_of_its_zones() -> None:
    assert [region_of(text) for text in ("us-east5", "us-east5-b", "us-central1-ai1a")] == [
        "us-east5",
        "us-east5",
        "us-central1",
    ]


def test_a_region_names_no_zone() -> None:
    assert [zone_in(text) for text in ("us-east5", "us-east5-b", "us-central1-ai1a")] == [
        None,
        "us-east5-b",
        "us-central1-ai1a",
    ]


def test_nodes_are_in_their_clusters_region_where_that_is_known() -> None:
    assert may_have("gke://p/us-east5-a/c", "us-east5-b")
    assert not may_have("gke://p/us-east5-a/c", "us-east1-b")
    assert may_have("training", "us-east1-b") and may_have(None, "us-east1-b")
