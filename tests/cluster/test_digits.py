"""The digits example as a JobSet of four pods, real JAX and Orbax in them: preempted, resumed, and the same model.

The pods have nothing of ours but what is sent to them. Once their output is a folder that they mount, once a bucket.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driven import Driving, drive, prepared

from prefect_tpu.infra import layout
from prefect_tpu.infra.launcher import checkpoints
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.request import Request

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "digits.py"
STEPS = 60
EVICT = {"key": "tests.prefect-tpu/evict", "effect": "NoExecute"}
SETTINGS = {"checkpoint_every": 0.5, "join_timeout": 240.0, "stall_timeout": None, "grace": 30.0}


def request(output: str, *, step_seconds: float, **settings: Any) -> Request:
    return Request(
        name="digits",
        program=f"{EXAMPLE}:main",
        accelerators=("cpu-4x1",),
        output=output,
        params={"steps": STEPS, "step_seconds": step_seconds},
        data={"digits": str(EXAMPLE.parent / "data" / "digits.csv.gz")},
        settings={**SETTINGS, **settings},
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the local backend's four processes come to, without any interruption."""
    result = drive(prepared(request(str(tmp_path_factory.mktemp("whole")), step_seconds=0.0)))
    assert result.state == "succeeded", result.failure
    return dict(result.value)


@pytest.fixture
def nodes(cluster: Any, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Four nodes of this test alone; their selector."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    names = cluster.add_cpus(namespace, 4)
    for name in names:
        cluster.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"tests": namespace}}})
    yield {"tests": namespace}
    cluster.delete_nodes(*names)


@pytest.mark.long
def test_on_a_folder_that_the_pods_mount(cluster, namespace, nodes, machine, until, whole):
    machine.output.symlink_to(cluster.kubelet.bucket(namespace))
    pods = {"volumes": {str(machine.output): f"gs://{namespace}"}}
    _preempted_and_resumed(
        cluster, namespace, str(machine.output / "jobs"), {**pods, "node_selector": nodes}, until, whole
    )


def test_on_a_bucket(cluster, namespace, nodes, gcs, bucket, until, whole):
    data = {name: base64.b64encode(value.encode()).decode() for name, value in gcs.environment.items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gcs"}, "data": data}
    cluster.api.post(f"/api/v1/namespaces/{namespace}/secrets", secret)
    pods = {"secrets": {name: f"gcs/{name}" for name in data}, "node_selector": nodes}
    _preempted_and_resumed(cluster, namespace, f"{bucket}/jobs", pods, until, whole)


def _preempted_and_resumed(cluster, namespace, output, pods, until, whole):
    settings = PodSettings(image="pod-python", python="python", namespace=namespace, cpu="100m", **pods)
    job = prepared(request(output, step_seconds=0.2, backend="jobset", pods=settings))
    driving = Driving(job)
    try:
        until(lambda: checkpoints.saved_step(job.storage, 1) is not None, "the first checkpoint", 240.0)
        _taint(cluster, namespace)
    finally:
        result = driving.result()
    assert result.state == "succeeded", result.failure
    assert [attempt.outcome for attempt in result.attempts] == ["preempted", "succeeded"]
    first, second = result.attempts
    assert second.first_step == first.saved_step + 1
    assert result.value == whole
    assert job.storage.get(layout.log(2, 3)) is not None


def _taint(cluster: Any, namespace: str) -> None:
    """The node of one host is tainted, which evicts it; the others hear of it by their program."""
    pods = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    node = max(pods, key=lambda pod: pod["metadata"]["name"])["spec"]["nodeName"]
    cluster.api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": [EVICT]}})
