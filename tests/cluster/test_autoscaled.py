"""Pools that are empty until a pod waits for them: made for a job by flex-start, or there for whoever comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import autoscaler
import container
import pytest
import tokens
import yaml
from cluster import Cluster
from container_world import Delays, World
from driven import drive, prepared
from google.cloud.container_v1 import NodePool

from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.request import Request

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

NAME = "gke://research/us-east5/elastic"
RESOURCE = "projects/research/locations/us-east5/clusters/elastic"
ZONE = "us-east5-a"


@pytest.fixture
def google(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[container.Google]:
    """Who has no machines when they are asked for at first."""
    world = World(delays=Delays(repair=0.3))
    awaited = autoscaler.looks_at(cluster.api)
    administrator = yaml.safe_load(cluster.kubeconfig.read_text())["users"][0]["user"]["token"]
    server = cluster.plane.server
    with (
        container.running(cluster.kubelet, world, is_awaited=awaited) as google,
        tokens.running(administrator, tmp_path) as given,
    ):
        address, authority = server.url.removeprefix("https://"), server.authority.read_bytes()
        google.add_cluster(RESOURCE, endpoint=address, authority=authority)
        dry = google.dry(times=2)
        for name, value in {**google.environment, **given.environment}.items():
            monkeypatch.setenv(name, value)
        yield google
        assert dry.times == -1, "the autoscaler has asked for machines twice in vain, and then once"
        cluster.delete_nodes(*[name for pool in google.pools for name in google.nodes_of(pool)])
        assert not google.errors, google.errors


@pytest.fixture
def run(cluster: Cluster, namespace: str, machine: Any) -> Callable[..., JobResult]:
    """A job of one slice, to its end."""
    machine.output.symlink_to(cluster.kubelet.bucket(namespace))

    def run(accelerator: str, **pods: Any) -> JobResult:
        settings = PodSettings(
            image="pod-python",
            python="python",
            cluster=NAME,
            namespace=namespace,
            cpu="100m",
            memory="500Mi",
            volumes={str(machine.output): f"gs://{namespace}"},
            **pods,
        )
        request = Request(
            name="waits",
            program="true",
            accelerators=(accelerator,),
            output=str(machine.output),
            settings={"backend": "jobset", "pods": settings, "grace": 2.0},
        )
        return drive(prepared(request))

    return run


def test_flex_start_makes_an_empty_pool_that_gets_its_nodes_once_google_has_them(
    google: container.Google, run: Callable[..., JobResult], until: Callable[..., Any], cluster: Cluster
) -> None:
    result = run("v6e-16:flex-start", make_pools=True, zones=(ZONE,))
    assert [one.outcome for one in result.attempts] == ["succeeded"]
    until(lambda: not google.pools, "the end of the pool")
    asked = [request.called for request in google.asked]
    assert (asked.count("nodePools.create"), asked.count("nodePools.delete")) == (1, 1)
    nodes = cluster.api.get("/api/v1/nodes", labelSelector="prefect-tpu-job=waits")["items"]
    assert nodes == []


def test_a_cluster_that_scales_itself_is_waited_for_and_nothing_of_it_is_touched(
    google: container.Google, run: Callable[..., JobResult]
) -> None:
    pool = NodePool(
        {
            "name": "everybodys",
            "status": NodePool.Status.RUNNING,
            "locations": [ZONE],
            "config": {"machine_type": "ct6e-standard-4t", "spot": True},
            "autoscaling": {"enabled": True, "max_node_count": 4},
            "placement_policy": {"type_": "COMPACT", "tpu_topology": "4x4"},
        }
    )
    google.add_pool(RESOURCE, pool)
    result = run("v6e-16:spot")
    assert [one.outcome for one in result.attempts] == ["succeeded"]
    assert list(google.pools) == [f"{RESOURCE}/nodePools/everybodys"]
    assert len(google.nodes_of("everybodys")) == 4
    assert {request.called for request in google.asked} <= {"clusters.get", "nodePools.list", "operations.list"}
