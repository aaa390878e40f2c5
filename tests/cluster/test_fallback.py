"""A zone whose autoscaler has no machines: the job goes on to the next zone, and the real scheduler places it there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cluster import Cluster
from control_plane import Object
from driven import Driving, prepared
from objects import failed_scale_up

from prefect_tpu.infra.gcp.placement import ZONE
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.request import Request

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

DRY, OPEN = "us-east5-a", "us-east5-b"
STOCKOUT = f"Node scale up in zones {DRY} associated with this pod failed: GCE out of resources."


def test_a_zone_without_machines_gives_its_turn_to_the_next(
    cluster: Cluster,
    namespace: str,
    fresh_pool: Callable[..., list[str]],
    until: Callable[..., Any],
    machine: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    nodes = fresh_pool("v6e-16")
    for node in nodes:
        cluster.kubelet.nodes.label(node, {ZONE: OPEN})
    machine.output.symlink_to(cluster.kubelet.bucket(namespace))
    pods = PodSettings(
        image="pod-python",
        python="python",
        namespace=namespace,
        cpu="100m",
        memory="500Mi",
        volumes={str(machine.output): f"gs://{namespace}"},
        zones=(DRY, OPEN),
    )
    request = Request(
        name="moves",
        program="true",
        accelerators=("v6e-16",),
        output=str(machine.output),
        settings={"backend": "jobset", "pods": pods, "grace": 2.0},
    )
    driving = Driving(prepared(request))
    leader = until(lambda: _unscheduled(cluster, namespace), "a pod that no node takes")
    cluster.api.post(f"/api/v1/namespaces/{namespace}/events", failed_scale_up(leader, STOCKOUT))
    result = driving.result()
    assert [(one.outcome, one.zone) for one in result.attempts] == [("no_capacity", DRY), ("succeeded", OPEN)]
    first, second = result.attempts
    assert first.failure is not None and STOCKOUT.rstrip(".") in first.failure.message
    assert second.instead_of == first.failure.message.rstrip(".")


def _unscheduled(cluster: Cluster, namespace: str) -> Object | None:
    for pod in cluster.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
        conditions = pod["status"].get("conditions", [])
        if any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions):
            assert pod["spec"]["nodeSelector"][ZONE] == DRY
            return dict(pod)
    return None
