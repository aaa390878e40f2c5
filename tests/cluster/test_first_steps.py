"""The shortest way through everything: a pod, and a slice of four hosts that find each other by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cluster import Cluster
from objects import Namespace, jobset, pod

pytestmark = pytest.mark.cluster

FIND_EACH_OTHER = """
import os, socket
own = os.environ["JOB_COMPLETION_INDEX"]
leader = socket.gethostbyname(os.environ["JOBSET_NAME"] + "-slice-0-0." + os.environ["JOBSET_NAME"])
print("host", own, "leader", leader, "named", socket.gethostname())
"""


def test_a_pod_runs_and_its_log_comes_through_the_api_server(
    cluster: Cluster, namespace: str, until: Callable[..., Any]
) -> None:
    here = Namespace(cluster.api, namespace)
    cluster.add_cpus("first-steps")
    here.make(pod("hello", "sh", "-c", "echo hello; exit 3"))
    until(lambda: here.is_over("hello"), "the pod's end")
    assert here.phase("hello") == "Failed"
    assert here.end("hello")["exitCode"] == 3
    assert here.log("hello") == "hello\n"


def test_four_hosts_of_a_slice_run_and_find_their_leader(
    cluster: Cluster, namespace: str, fresh_pool: Callable[..., list[str]], until: Callable[..., Any]
) -> None:
    here = Namespace(cluster.api, namespace)
    nodes = fresh_pool("v6e-16")
    pool = cluster.kubelet.nodes.labels(nodes[0])["cloud.google.com/gke-nodepool"]
    command = jobset("four", pool, 4, "python", "-c", FIND_EACH_OTHER)
    container = command["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "JOBSET_NAME", "value": "four"}]
    here.start(command)
    until(lambda: [one["status"].get("phase") for one in here.of("four")] == ["Succeeded"] * 4, "the end of all")
    logs = {here.log(one["metadata"]["name"]) for one in here.of("four")}
    leader = logs.copy().pop().split()[3]
    assert logs == {f"host {host} leader {leader} named four-slice-0-{host}\n" for host in range(4)}
    assert {one["spec"]["nodeName"] for one in here.of("four")} <= set(nodes)
