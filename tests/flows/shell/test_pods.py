"""What a command line says of pods becomes their settings; a secret given by mistake is never shown."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from prefect_tpu.flows.shell.asking import request_of
from prefect_tpu.flows.shell.options import JobOptions
from prefect_tpu.flows.shell.pods import pods_of
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.pathways import PathwaysSettings
from prefect_tpu.infra.pods import PodSettings, in_pods


def said(**words: Any) -> dict[str, Any]:
    return pods_of(JobOptions(target="train.py:main", **words))


def settings(*pod: str, **words: Any) -> PodSettings:
    found = in_pods(None, said(image="python", pod=list(pod), **words))["pods"]
    assert isinstance(found, PodSettings)
    return found


def test_every_setting_can_be_said() -> None:
    found = settings(
        "python=/opt/python",
        "pull-secrets=registry,mirror",
        "cpu=8",
        "memory=64Gi",
        "ephemeral-storage=50Gi",
        "shared_memory=16Gi",
        "priority-class=high",
        "reservation=projects/p/reservations/r",
        "provisioning_request=r",
        "node_selector.cloud.google.com/gke-nodepool=pool-a",
        "labels.team=vision",
        "annotations.example.com/note=a=b",
        "ttl=1h",
        "pathways.jax=0.10.2",
        "pathways.elastic_slices=1",
        "pathways.worker_flags=--a=b,--c",
        "node-service-account=nodes@project.iam.gserviceaccount.com",
        cluster=["trainer", "spare", "gke://project/us-east5/third"],
        zone=["us-east5-b", "us-east5-a"],
        make_pools=True,
        namespace="research",
        queue="tpus",
        service_account="trainer",
        secret=["TOKEN=hub/token"],
        volume=["/data=gs://bucket/folder", "/spare=empty"],
    )
    assert found == PodSettings(
        image="python",
        cluster="trainer",
        fallback_clusters=("spare", "gke://project/us-east5/third"),
        zones=("us-east5-b", "us-east5-a"),
        make_pools=True,
        node_service_account="nodes@project.iam.gserviceaccount.com",
        namespace="research",
        python="/opt/python",
        service_account="trainer",
        pull_secrets=("registry", "mirror"),
        cpu="8",
        memory="64Gi",
        ephemeral_storage="50Gi",
        shared_memory="16Gi",
        priority_class="high",
        queue="tpus",
        reservation="projects/p/reservations/r",
        provisioning_request="r",
        secrets={"TOKEN": "hub/token"},
        volumes={"/data": "gs://bucket/folder", "/spare": "empty"},
        node_selector={"cloud.google.com/gke-nodepool": "pool-a"},
        labels={"team": "vision"},
        annotations={"example.com/note": "a=b"},
        ttl=3600,
        pathways=PathwaysSettings(jax="0.10.2", elastic_slices=1, worker_flags=("--a=b", "--c")),
    )
    plain = PodSettings(image="other")
    assert all(getattr(found, field.name) != getattr(plain, field.name) for field in fields(PodSettings))


def test_nothing_said_is_nothing_asked() -> None:
    assert said() == {}
    assert settings("ttl=0").ttl == 0


def test_a_truth_is_said_with_or_without_an_option_of_its_own() -> None:
    assert settings("make-pools=true").make_pools and not settings("make_pools=false").make_pools
    assert said(make_pools=False) == {"make_pools": False}, "which a saved cluster may say otherwise"
    assert said(pod=["zones=us-east5-a,us-east5-b"]) == {"zones": ("us-east5-a", "us-east5-b")}


def test_where_hosts_run_follows_from_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_TPU_OUTPUT", "gs://bucket/jobs")

    def asked(**words: Any) -> Any:
        return request_of(JobOptions(target="train.py:main", **words)).settings

    assert asked() == {} and asked(backend="local", slices=2) == {"backend": "local", "slices": 2}
    assert asked(image="python", slices=2) == {"backend": "jobset", "slices": 2, "pods": PodSettings(image="python")}
    with pytest.raises(UsageError, match="need an image"):
        asked(cluster=["trainer"])
    with pytest.raises(UsageError, match="The local backend has no pods, and queue was given"):
        asked(backend="local", queue="tpus")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"secret": ["TOKEN"]}, "--secret 'TOKEN' is not NAME=SECRET/KEY"),
        ({"secret": ["TOKEN=hush"]}, "--secret 'TOKEN' is not NAME=SECRET/KEY"),
        ({"secret": ["TOKEN=Hush/hush"]}, "The secret of 'TOKEN' must be named"),
        ({"secret": ["A=s/k", "A=s/l"]}, "secrets has 'A' twice"),
        ({"volume": ["/data"]}, "--volume '/data' is not PATH=SOURCE"),
        ({"volume": ["/a=empty", "/a=empty"]}, "volumes has '/a' twice"),
        ({"pod": ["memory"]}, "--pod 'memory' is not KEY=VALUE"),
        ({"pod": ["labels=hush"]}, "--pod labels names nothing in labels"),
        ({"pod": ["labels.=hush"]}, "--pod labels. names nothing in labels"),
        ({"pod": ["memory.x=1Gi"]}, "memory has no parts"),
        ({"pod": ["memory=1Gi", "memory=2Gi"]}, "says memory again"),
        ({"pod": ["queue=b"], "queue": "a"}, "says queue again"),
        ({"pod": ["make_pools=hush"]}, "--pod make_pools takes true or false"),
        ({"pod": ["make_pools=true"], "make_pools": True}, "says make_pools again"),
        ({"pod": ["zones=us-east5-a"], "zone": ["us-east5-b"]}, "says zones again"),
        ({"cluster": ["a", "a"]}, "A cluster is named twice"),
        ({"pod": ["ttl=hush"]}, "--pod ttl 'hush' is no duration"),
        ({"pod": ["memry=1Gi"]}, "Pods have no setting 'memry'. Did you mean 'memory'"),
        ({"pod": ["zzz.x=1Gi"]}, "zzz has no parts"),
        ({"pod": ["secrets.TOKEN=hush"]}, "The secret of 'TOKEN' must be named"),
    ],
)
def test_words_that_mean_nothing_are_refused(words: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        in_pods(None, {"image": "python", **said(**words)})
    assert says in str(caught.value) and ("hush" not in str(caught.value) or "ttl" in str(caught.value))
