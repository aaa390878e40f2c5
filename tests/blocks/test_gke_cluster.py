"""A saved cluster: what it says for jobs, and what is refused where it is typed in. No server is asked."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from prefect_tpu.blocks import GKECluster
from prefect_tpu.infra.pods import PodDefaults, in_pods

PLACE = {"project": "my-project", "location": "us-east5-b", "cluster": "training"}


def test_it_says_of_pods_what_it_has_and_leaves_the_rest_to_the_job() -> None:
    block = GKECluster(
        **PLACE,
        output="gs://bucket/jobs",
        image="image:1",
        queue="tpus",
        pull_secrets=["registry"],
        zones=["us-east5-b", "us-east5-a"],
        make_pools=True,
        node_service_account="nodes@my-project.iam.gserviceaccount.com",
    )
    assert block.defaults() == PodDefaults(
        output="gs://bucket/jobs",
        pods={
            "cluster": "gke://my-project/us-east5-b/training",
            "namespace": "default",
            "image": "image:1",
            "queue": "tpus",
            "pull_secrets": ("registry",),
            "zones": ("us-east5-b", "us-east5-a"),
            "make_pools": True,
            "node_service_account": "nodes@my-project.iam.gserviceaccount.com",
        },
    )


@pytest.mark.parametrize(("said", "address"), [(PLACE, "gke://my-project/us-east5-b/training"), ({}, "")])
def test_a_cluster_has_an_address_or_is_the_one_around(said: dict[str, str], address: str) -> None:
    assert GKECluster(**said).address() == address
    assert GKECluster(context="laptop").address() == "laptop"


def test_what_a_job_says_itself_counts_more() -> None:
    defaults = GKECluster(context="team", image="image:1", namespace="ml").defaults()
    settings = in_pods(None, defaults.completed({"image": "image:2", "queue": "", "namespace": None}))
    assert settings["backend"] == "jobset"
    pods = settings["pods"]
    assert (pods.image, pods.cluster, pods.namespace, pods.queue) == ("image:2", "team", "ml", None)
    pools = GKECluster(**PLACE, image="image:1", make_pools=True).defaults()
    assert pools.completed({})["make_pools"] and not pools.completed({"make_pools": False})["make_pools"]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"project": "my-project"}, "without location and cluster"),
        ({**PLACE, "context": "team"}, "and context 'team' beside them"),
        ({**PLACE, "project": "My Project"}, "is not the name of one"),
        ({"namespace": "ML"}, "namespace is 'ML'"),
        ({"image": "no image"}, "image"),
        ({"queue": "Q"}, "queue is 'Q'"),
        ({**PLACE, "zones": ["us-east1-b"]}, "Zone 'us-east1-b' is not in us-east5"),
        ({"zones": ["here"]}, "zones has 'here'"),
        ({"context": "laptop", "make_pools": True}, "cluster 'laptop' is not known to be Google's"),
        ({"node_service_account": "nodes"}, "give an email address"),
    ],
)
def test_what_could_never_be_used_is_refused_where_it_is_typed(said: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        GKECluster(**said)


def test_its_form_explains_every_field() -> None:
    schema = GKECluster.model_json_schema()
    assert "required" not in schema and "secret_fields" in schema and schema["secret_fields"] == []
    for name, field in schema["properties"].items():
        assert field["type"] in ("string", "array", "boolean"), name
        assert field["description"][0].isupper() and field["description"].endswith("."), name
