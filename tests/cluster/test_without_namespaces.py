"""The same kubelet on a machine that allows no namespaces: paths and names are rewritten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster import Cluster
from control_plane import Object
from kubelet import Image, ProcessKubelet, Rewriting, cpu_nodes
from objects import Namespace, pod

pytestmark = pytest.mark.cluster

LOOK_AROUND = "cat /config/text; cat $FILE; echo done > /dev/termination-log; ls -A $HOME .; echo $WHO"


@pytest.fixture(scope="module")
def here(cluster: Cluster) -> Iterator[Namespace]:
    folder = cluster.plane.folder / "kubelet-without-namespaces"
    images = {"system": Image()}
    with (
        ProcessKubelet(cluster.plane, images, Rewriting(), folder) as kubelet,
        cluster.namespace("rewritten") as made,
    ):
        kubelet.add_nodes(cpu_nodes("rewritten"))
        made.keep("ConfigMap", "config", {"text": "from a file\n"})
        made.make(*map(_there, _pods()))
        yield made
        kubelet.delete_nodes("gke-cpu-rewritten-0")
        assert not kubelet.errors


def _pods() -> list[Object]:
    volumes = [{"name": "config", "configMap": {"name": "config"}}]
    variables = [{"name": "FILE", "value": "/config/text"}, {"name": "WHO", "value": "host-1.group at host-0.group"}]
    container = {"volumeMounts": [{"name": "config", "mountPath": "/config"}], "env": variables}
    stay = "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done"
    return [
        pod(
            "looks", "sh", "-c", LOOK_AROUND, container=container, volumes=volumes, hostname="host-1", subdomain="group"
        ),
        pod("stays", "sh", "-c", stay),
        pod("leaves", "sh", "-c", "sleep 60 & echo $! > /dev/termination-log"),
    ]


def _there(made: Object) -> Object:
    made["spec"]["nodeSelector"] = {"cloud.google.com/gke-nodepool": "rewritten"}
    return made


def test_paths_and_names_are_replaced(here: Namespace, until: Callable[..., Any]) -> None:
    until(lambda: here.is_over("looks"), "the end of the pod")
    address = here.pod("looks")["status"]["podIP"]
    first, second, *empty, who = here.log("looks").splitlines()
    assert (first, second) == ("from a file", "from a file")
    assert [line for line in empty if line and not line.endswith(":")] == []
    assert who.startswith(f"{address} at 127.")
    assert here.end("looks")["message"] == "done\n"


def test_a_pod_is_asked_to_end(here: Namespace, until: Callable[..., Any]) -> None:
    until(lambda: here.phase("stays") == "Running" and "up" in here.log("stays"), "the pod")
    here.api.delete(f"{here.pods}/stays")
    *_, last = here.changes("stays")
    assert last["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 9


def test_what_a_container_leaves_behind_is_gone_with_it(
    here: Namespace, cluster: Cluster, until: Callable[..., Any]
) -> None:
    until(lambda: here.is_over("leaves"), "the end of the pod")
    left = int(here.end("leaves")["message"])
    until(lambda: not _runs(left), "the end of what it left behind")


def _runs(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
