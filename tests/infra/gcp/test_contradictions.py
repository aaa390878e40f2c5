"""An accelerator's capacity and the settings of pods say the same, or it is said which to leave out."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.gcp.contradictions import contradiction, contradiction_of_places, zones_to_name
from prefect_tpu.infra.gcp.placement import POOL, ZONE
from prefect_tpu.infra.pods import PodSettings
from tests.infra.gcp.golden_plans import GOLDEN, pod_plan


def of(name: str, **pods: Any) -> str | None:
    return contradiction(name, resolve(name), PodSettings(image="python", **pods))


@pytest.mark.parametrize(
    ("name", "pods", "says"),
    [
        ("v6e-16:queue", {}, "waits in a queue, and none is named: give --queue"),
        ("v6e-16:spot", {"reservation": "block"}, "'v6e-16:spot' and the reservation 'block' contradict each other"),
        ("v6e-16:on-demand", {"reservation": "block"}, "contradict each other"),
        ("v6e-16:flex-start", {"reservation": "block"}, "contradict each other"),
        ("v6e-16:reserved=a", {"reservation": "block"}, "names another reservation than 'block'"),
    ],
)
def test_what_contradicts_itself(name: str, pods: dict[str, Any], says: str) -> None:
    assert says in (of(name, **pods) or "")


EAST, CENTRAL = "gke://research/us-east5/a", "gke_research_us-central1-a_b"


def of_places(**pods: Any) -> str | None:
    return contradiction_of_places(PodSettings(image="python", **pods))


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        ({"zones": ("us-east5-b",), "node_selector": {ZONE: "us-east5-b"}}, "Zones are given twice"),
        ({"cluster": EAST, "zones": ("us-east1-b",)}, "Zone 'us-east1-b' is not in us-east5, where"),
        (
            {"cluster": EAST, "fallback_clusters": (CENTRAL,), "zones": ("us-east5-b", "us-west1-a")},
            "Zone 'us-west1-a' is not in us-east5 and us-central1, where the job's clusters are",
        ),
        (
            {"cluster": EAST, "fallback_clusters": (CENTRAL,), "zones": ("us-east5-b",)},
            f"None of the zones is in the region of cluster '{CENTRAL}'",
        ),
        ({"make_pools": True}, "no cluster is named: name it as gke://project/location/cluster"),
        ({"make_pools": True, "cluster": "training"}, "cluster 'training' is not known to be Google's"),
        (
            {"make_pools": True, "cluster": CENTRAL, "fallback_clusters": ("training",)},
            "cluster 'training' is not known",
        ),
        (
            {"cluster": EAST, "fallback_clusters": (CENTRAL, "gke_research_us-east5_a")},
            f"'{EAST}' and 'gke_research_us-east5_a' are the same cluster",
        ),
        (
            {"make_pools": True, "cluster": CENTRAL, "node_selector": {POOL: "mine"}},
            "node_selector chooses among nodes that others have made",
        ),
        (
            {"make_pools": True, "cluster": CENTRAL, "provisioning_request": "mine"},
            "provisioning_request chooses among nodes that others have made",
        ),
    ],
)
def test_places_that_contradict_each_other(pods: dict[str, Any], says: str) -> None:
    assert says in (of_places(**pods) or "")


def test_places_that_fit() -> None:
    assert of_places() is None and of_places(zones=("us-east5-b",)) is None
    assert of_places(node_selector={ZONE: "us-east5-b"}) is None
    assert of_places(cluster="one", fallback_clusters=("other",), provisioning_request="mine") is None
    both = {"cluster": EAST, "fallback_clusters": (CENTRAL,), "zones": ("us-central1-ai1a", "us-east5-b")}
    assert of_places(**both) is None and of_places(**both, make_pools=True) is None


def test_pools_of_a_cluster_that_has_a_region_need_zones() -> None:
    pools = {"image": "python", "make_pools": True, "fallback_clusters": (EAST,), "cluster": CENTRAL}
    assert f"cluster {EAST} has a region: name zones of it" in (zones_to_name(PodSettings(**pools)) or "")
    for fits in ({"zones": ("us-east5-a",)}, {"fallback_clusters": ()}, {"make_pools": False}):
        assert zones_to_name(PodSettings(**{**pools, **fits})) is None


def test_what_fits() -> None:
    assert of("v6e-16") is None and of("v6e-16:spot") is None and of("v6e-16:reserved") is None
    assert of("v6e-16", reservation="block") is None and of("v6e-16:reserved=block", reservation="block") is None
    assert of("v6e-16:queue", queue="tpus") is None and of("v6e-16:queue", provisioning_request="r") is None
    for golden in GOLDEN.values():
        assert contradiction(golden.accelerator, resolve(golden.accelerator), pod_plan(golden).pods) is None
