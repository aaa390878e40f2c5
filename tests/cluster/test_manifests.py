"""What the manifests say is what happens: which nodes hosts get, what a host finds, who else may be there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from cluster import Cluster
from objects import Namespace

from prefect_tpu.infra.gcp import manifests
from tests.infra.gcp.golden_plans import Golden, pod_plan

pytestmark = pytest.mark.cluster

TELL = b"""
import json, os, sys
folders = {path: os.access(path, os.W_OK) for path in ("/prefect-tpu/scratch", "/dev/shm", "/spare", "/config")}
wanted = ("JOB_COMPLETION_INDEX", "PREFECT_TPU_SLICE", "PREFECT_TPU_ATTEMPT", "TOKEN")
found = {name: os.environ.get(name) for name in wanted}
with open("/dev/termination-log", "w") as log:
    log.write("its record")
print(json.dumps({**found, "words": sys.argv[1:], "folders": folders, "setting": open("/config/level").read()}))
"""
COMMON = {
    "image": "pod-python",
    "python": "python",
    "secrets": {"TOKEN": "hub/token"},
    "volumes": {"/spare": "empty:1Gi", "/config": "configmap:settings"},
}


@pytest.fixture
def here(cluster: Cluster, namespace: str) -> Namespace:
    found = Namespace(cluster.api, namespace)
    found.keep("Secret", "hub", {"token": "the value"})
    found.keep("ConfigMap", "settings", {"level": "high"})
    return found


def send(here: Namespace, golden: Golden) -> str:
    plan = pod_plan(golden)
    config_map, jobset = manifests.objects(plan, TELL)
    here.api.apply(f"/api/v1/namespaces/{here.name}/configmaps/{config_map['metadata']['name']}", config_map)
    here.start(jobset)
    return str(jobset["metadata"]["name"])


def pools(here: Namespace, cluster: Cluster, jobset: str) -> list[str]:
    """Of the hosts, slice by slice."""
    found = {}
    for pod in here.of(jobset):
        labels = pod["metadata"]["labels"]
        place = labels["jobset.sigs.k8s.io/job-index"], labels["batch.kubernetes.io/job-completion-index"]
        found[place] = cluster.kubelet.nodes.labels(pod["spec"]["nodeName"])["cloud.google.com/gke-nodepool"]
    return [found[place] for place in sorted(found)]


def test_hosts_get_the_nodes_that_were_asked_for(
    cluster: Cluster, here: Namespace, fresh_pool: Callable[..., list[str]], until: Callable[..., Any]
) -> None:
    kinds = {"-a": "v6e-16", "-b": "v6e-16", "-s": "v6e-16:spot"}
    nodes = [fresh_pool(accelerator, ending)[0] for ending, accelerator in kinds.items()]
    a, b, s = (cluster.kubelet.nodes.labels(node)["cloud.google.com/gke-nodepool"] for node in nodes)
    pods = {**COMMON, "namespace": here.name}
    spot = send(here, Golden(accelerator="v6e-16:spot", job="spot", pods=pods))
    avoiding = send(here, Golden(accelerator="v6e-16", job="avoiding", pods=pods, avoid=(a,)))
    for jobset in (spot, avoiding):
        until(lambda jobset=jobset: phases(here, jobset) == ["Succeeded"] * 4, f"the end of {jobset}")
    assert pools(here, cluster, spot) == [s] * 4 and pools(here, cluster, avoiding) == [b] * 4
    two = send(here, Golden(accelerator="v6e-16", job="two", slices=2, pods=pods))
    until(lambda: phases(here, two) == ["Succeeded"] * 8, f"the end of {two}")
    placed = pools(here, cluster, two)
    assert placed in ([a] * 4 + [b] * 4, [b] * 4 + [a] * 4)
    check_hosts(here, two)


def phases(here: Namespace, jobset: str) -> list[str]:
    return [pod["status"].get("phase") for pod in here.of(jobset)]


def check_hosts(here: Namespace, jobset: str) -> None:
    """Each of the eight knows which one it is, and has its folders, its secret and its settings."""
    told = {}
    for pod in here.of(jobset):
        name = pod["metadata"]["name"]
        said = json.loads(here.log(name))
        told[said.pop("PREFECT_TPU_SLICE"), said.pop("JOB_COMPLETION_INDEX")] = said
        assert here.end(name)["message"] == "its record"
        assert pod["metadata"]["labels"]["prefect-tpu/job"] == "two"
    assert sorted(told) == [(str(index), str(host)) for index in range(2) for host in range(4)]
    for said in told.values():
        assert said == {
            "PREFECT_TPU_ATTEMPT": "gs://bucket/jobs/two/1",
            "TOKEN": "the value",
            "words": ["gs://bucket/jobs/two/attempts/1/plan.json"],
            "folders": {"/prefect-tpu/scratch": True, "/dev/shm": True, "/spare": True, "/config": False},
            "setting": "high",
        }
