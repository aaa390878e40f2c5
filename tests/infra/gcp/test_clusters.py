"""Which cluster is meant by what somebody called it?"""

from __future__ import annotations

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.clusters import ClusterName, GkeCluster

RESEARCH = GkeCluster(project="research", location="us-east5-a", cluster="training")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (None, ClusterName()),
        (" ", ClusterName()),
        ("kind-dev", ClusterName(context="kind-dev")),
        ("admin@prod:443", ClusterName(context="admin@prod:443")),
        ("gke_research_us-east5-a_training", ClusterName(context="gke_research_us-east5-a_training")),
        ("arn:aws:eks:eu-west-1:1/x", ClusterName(context="arn:aws:eks:eu-west-1:1/x")),
        ("gke://research/us-east5-a/training", ClusterName(gke=RESEARCH)),
        (
            "gke://example.com:research/europe-west4/training",
            ClusterName(gke=GkeCluster(project="example.com:research", location="europe-west4", cluster="training")),
        ),
        (
            "gke://research/us-central1-ai1a/training",
            ClusterName(gke=GkeCluster(project="research", location="us-central1-ai1a", cluster="training")),
        ),
    ],
)
def test_a_name_is_read(text: str | None, name: ClusterName) -> None:
    assert ClusterName.parse(text) == name
    assert ClusterName.parse(str(name)) == name


@pytest.mark.parametrize(
    "text",
    ["gke://research/training", "gke://research/us-east5-a/training/x", "gke://", "https://10.0.0.1", "gke://p/a/c"],
)
def test_what_is_no_name_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="gke://my-project/us-east5-a/training"):
        ClusterName.parse(text)


def test_the_container_api_s_name_of_a_cluster() -> None:
    assert RESEARCH.resource_name == "projects/research/locations/us-east5-a/clusters/training"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            "gke://research/us-east5-a/training",
            GkeCluster(project="research", location="us-east5-a", cluster="training"),
        ),
        ("gke_research_us-east5_training", GkeCluster(project="research", location="us-east5", cluster="training")),
        ("gke_research_training", None),
        ("training", None),
        (None, None),
    ],
)
def test_where_in_google_cloud_a_cluster_is_its_name_may_say(text: str | None, place: GkeCluster | None) -> None:
    assert ClusterName.parse(text).place == place
