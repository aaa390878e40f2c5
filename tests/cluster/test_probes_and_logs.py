"""What is asked of a running container: its probes, and its log through the API server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster import Cluster
from control_plane import ApiError, Object
from objects import Namespace, pod

pytestmark = pytest.mark.cluster

SERVE = """
import http.server, pathlib
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if pathlib.Path("/bucket/ready").exists() else 503)
        self.end_headers()
http.server.HTTPServer(("", 8080), Handler).serve_forever()
"""
STAY = "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"
BUCKET = "of-the-probes"
QUICK = {"periodSeconds": 1, "failureThreshold": 1}
EMPTY = {"name": "empty", "emptyDir": {}}
AT_EMPTY = [{"name": "empty", "mountPath": "/empty"}]


def _watched(name: str, script: str, probes: Object, **spec: Any) -> Object:
    return pod(name, "sh", "-c", script, container={"volumeMounts": AT_EMPTY, **probes}, volumes=[EMPTY], **spec)


def _served() -> Object:
    """A server that is ready while a file lies in a bucket."""
    probes: Object = {"readinessProbe": {"httpGet": {"path": "/", "port": "web"}, **QUICK}}
    probes["startupProbe"] = {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 60}
    driver = {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": {"bucketName": BUCKET}}
    mounts = [{"name": "bucket", "mountPath": "/bucket"}]
    container = {**probes, "ports": [{"name": "web", "containerPort": 8080}], "volumeMounts": mounts}
    volumes = [{"name": "bucket", "csi": driver}]
    return pod("served", "python", "-c", SERVE, image="pod-python", container=container, volumes=volumes)


@pytest.fixture(scope="module")
def here(cluster: Cluster) -> Iterator[Namespace]:
    nodes = cluster.add_cpus("probes")
    alive = {"livenessProbe": {"exec": {"command": ["sh", "-c", '[ "$(cat /empty/runs)" != 1 ]']}, **QUICK}}
    never = {"startupProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2}}
    note_run = "trap 'exit 0' TERM; echo started; echo x >> /empty/all; wc -l < /empty/all > /empty/runs"
    with cluster.namespace("probes") as made:
        made.make(
            _served(),
            _watched("dies", f"{note_run}; {STAY}", alive, restartPolicy="Always"),
            _watched("never-up", STAY, never),
            pod("counts", "sh", "-c", "for i in 1 2 3 4 5; do echo line $i; sleep 0.3; done; printf end"),
            pod("stays", "sh", "-c", STAY),
        )
        yield made
    cluster.delete_nodes(*nodes)


def _container(here: Namespace, name: str) -> Object:
    found: Object = here.pod(name)["status"]["containerStatuses"][0]
    return found


def test_a_container_is_ready_while_its_probe_says_so(
    here: Namespace, cluster: Cluster, until: Callable[..., Any]
) -> None:
    until(lambda: _said(here, "served", "Unhealthy: Readiness probe failed"), "a probe that fails")
    assert _container(here, "served")["started"] is True
    assert _container(here, "served")["ready"] is False
    (cluster.kubelet.bucket(BUCKET) / "ready").touch()
    until(lambda: (here.condition("served", "Ready") or {}).get("status") == "True", "the pod to be ready")


def _said(here: Namespace, name: str, beginning: str) -> bool:
    return any(event.startswith(beginning) for event in here.events(name))


def test_a_container_that_is_not_alive_is_started_again(here: Namespace, until: Callable[..., Any]) -> None:
    until(lambda: _container(here, "dies")["restartCount"] == 1 and "running" in here.state("dies"), "the second start")
    assert _container(here, "dies")["lastState"]["terminated"]["exitCode"] == 0
    assert "Killing: Container main failed liveness probe, will be restarted" in here.events("dies")
    assert here.log("dies", previous="true").startswith("started\n")


def test_a_container_that_does_not_come_up_is_ended(here: Namespace, until: Callable[..., Any]) -> None:
    until(lambda: here.is_over("never-up"), "the end of a pod that never comes up")
    assert _said(here, "never-up", "Unhealthy: Startup probe failed")


def test_a_log_is_followed_to_the_containers_end(here: Namespace) -> None:
    whole = "".join(f"line {number}\n" for number in range(1, 6)) + "end\n"
    found: list[str] = []
    follower = threading.Thread(target=lambda: found.append(_followed(here, "counts")))
    follower.start()
    follower.join(60)
    assert found == [whole]
    assert here.log("counts") == whole


def _followed(here: Namespace, name: str) -> str:
    while True:
        try:
            return here.log(name, follow="true")
        except ApiError as error:  # it has not started
            assert error.status == 400, error


def test_a_part_of_a_log(here: Namespace, until: Callable[..., Any]) -> None:
    until(lambda: here.is_over("counts"), "the end of the log")
    assert here.log("counts", tailLines=2) == "line 5\nend\n"
    assert here.log("counts", tailLines=0) == ""
    assert here.log("counts", limitBytes=9) == "line 1\nli"
    stamps = [line.split(" ")[0] for line in here.log("counts", timestamps="true").splitlines()]
    assert stamps == sorted(stamps)
    assert here.log("counts", sinceTime=stamps[3][:19] + "Z").endswith("line 4\nline 5\nend\n")


def test_a_log_of_an_earlier_start_that_was_not(here: Namespace, until: Callable[..., Any]) -> None:
    until(lambda: "running" in here.state("stays"), "the pod")
    with pytest.raises(ApiError, match='previous terminated container "main" in pod "stays" not found'):
        here.log("stays", previous="true")
