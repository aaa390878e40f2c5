"""What a container waits for before it starts, as the kubelet says it; it starts when that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster import Cluster
from control_plane import ApiError
from kubelet import Image
from objects import Namespace, pod

pytestmark = pytest.mark.cluster

FROM_MAP = {"name": "TEXT", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "text"}}}
FROM_SECRET = {"name": "TEXT", "valueFrom": {"secretKeyRef": {"name": "there", "key": "other"}}}


@pytest.fixture(scope="module")
def here(cluster: Cluster) -> Iterator[Namespace]:
    nodes = cluster.add_cpus("waiting")
    with cluster.namespace("waiting") as made:
        made.keep("Secret", "there", {"text": "x"})
        volume = {"name": "late", "configMap": {"name": "late-volume"}}
        host = {"name": "host", "hostPath": {"path": "/etc"}}
        made.make(
            pod("unknown", "true", image="missing.example/x"),
            pod("nameless", "true", image="Not A Name"),
            pod("never", "true", image="missing.example/y", container={"imagePullPolicy": "Never"}),
            pod("late", "sh", "-c", "echo $TEXT", container={"env": [FROM_MAP]}),
            pod("keyless", "true", container={"env": [FROM_SECRET]}),
            pod("late-volume", "true", volumes=[volume]),
            pod("host", "true", volumes=[host]),
        )
        yield made
    cluster.delete_nodes(*nodes)


@pytest.fixture
def waits(here: Namespace, until: Callable[..., Any]) -> Callable[[str, str], str]:
    """The message with which a pod's container waits for this reason."""

    def look(name: str, reason: str) -> str:
        def message() -> str | None:
            found = here.state(name).get("waiting", {})
            return str(found.get("message")) if found.get("reason") == reason else None

        return str(until(message, f"{name} waiting for {reason}"))

    return look


def test_an_image_that_is_not_there_is_pulled_again_and_again(
    here: Namespace, cluster: Cluster, waits: Callable[..., str], until: Callable[..., Any]
) -> None:
    assert "missing.example/x:latest: not found" in waits("unknown", "ErrImagePull")
    assert waits("unknown", "ImagePullBackOff").startswith('Back-off pulling image "missing.example/x": ErrImagePull: ')
    assert here.phase("unknown") == "Pending"
    assert any(event.startswith('Failed: Failed to pull image "missing.example/x"') for event in here.events("unknown"))
    cluster.kubelet.images.add("missing.example/x", Image())
    until(lambda: here.phase("unknown") == "Succeeded", "the pod once its image is there")


@pytest.mark.parametrize(
    ("name", "reason", "message"),
    [
        ("nameless", "InvalidImageName", "invalid reference format"),
        ("never", "ErrImageNeverPull", "not present with pull policy of Never"),
        ("keyless", "CreateContainerConfigError", "couldn't find key other in Secret waiting/there"),
    ],
)
def test_what_cannot_start(name: str, reason: str, message: str, waits: Callable[..., str]) -> None:
    assert message in waits(name, reason)


def test_a_container_starts_when_its_config_map_is_there(
    here: Namespace, waits: Callable[..., str], until: Callable[..., Any]
) -> None:
    assert waits("late", "CreateContainerConfigError") == 'configmap "late" not found'
    here.keep("ConfigMap", "late", {"text": "at last"})
    until(lambda: here.is_over("late"), "the pod once its ConfigMap is there")
    assert here.log("late") == "at last\n"


def test_a_pod_starts_when_its_volume_is_there(here: Namespace, until: Callable[..., Any]) -> None:
    until(
        lambda: any('configmap "late-volume" not found' in event for event in here.events("late-volume")), "the event"
    )
    assert here.state("late-volume") == {"waiting": {"reason": "ContainerCreating"}}
    here.keep("ConfigMap", "late-volume", {"text": "x"})
    until(lambda: here.phase("late-volume") == "Succeeded", "the pod once its volume is there")


def test_no_pod_mounts_a_folder_of_this_machine(here: Namespace, until: Callable[..., Any]) -> None:
    until(lambda: any("volume plugin for hostPath is not there" in event for event in here.events("host")), "the event")
    assert here.phase("host") == "Pending"


def test_a_container_that_waits_has_no_log(here: Namespace, waits: Callable[..., str]) -> None:
    waits("never", "ErrImageNeverPull")
    with pytest.raises(ApiError, match='container "main" in pod "never" is waiting to start: ErrImageNeverPull'):
        here.log("never")
