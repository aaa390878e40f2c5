"""All that is not ours in a mission: a project of Google Cloud with its cluster, bucket and quotas; a Prefect server.

The cluster's control plane and the Prefect server are real; its kubelet and Google's APIs are fakes on loopback.
Whoever trains is a service account with the rights that `deployments/gke` gives, known to all of them by one key.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import cloud_monitoring
import cloud_quotas
import container
import tokens
from cluster import Cluster
from container import Google
from control_plane import users
from gcs import Gcs
from prefect_server import Server, running_server
from rights import DRIVER, HOST, grant

PROJECT, REGION, NAME, NAMESPACE = "research", "us-east5", "training", "ml"
ZONES = ("us-east5-a", "us-east5-b")
IMAGE = "trainer:1"
RESOURCE = f"projects/{PROJECT}/locations/{REGION}/clusters/{NAME}"
OF_V5E, OF_V6E = "PREEMPTIBLE-TPU-LITE-PODSLICE-V5-per-project-zone", "PREEMPTIBLE-TPU-V6E-per-project-region"
SAVE = """
import json, sys
from prefect_tpu.blocks import GKECluster
GKECluster(**json.loads(sys.argv[1])).save("training", overwrite=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a mission takes place in.

    environment: what a process needs to know to be in it. output: of all jobs. zones: where the cluster has nodes.
    """

    cluster: Cluster
    google: Google
    server: Server
    output: str
    environment: Mapping[str, str]
    zones: tuple[str, ...] = ZONES

    def python(self, *words: str) -> list[str]:
        return [sys.executable, "-P", *words]

    def nodes(self) -> list[str]:
        """All of the cluster's, by name."""
        return [node["metadata"]["name"] for node in self.cluster.api.get("/api/v1/nodes")["items"]]

    def save(self, **more: object) -> None:
        """As a person does once for a team: the block `training`."""
        fields = {
            "project": PROJECT,
            "location": REGION,
            "cluster": NAME,
            "namespace": NAMESPACE,
            "output": self.output,
            "image": IMAGE,
            "service_account": HOST,
            **more,
        }
        command = self.python("-c", SAVE, json.dumps(fields))
        done = subprocess.run(command, env=dict(self.environment), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr


@contextmanager
def world(cluster: Cluster, gcs: Gcs, folder: Path) -> Iterator[World]:
    """Gone at the end, with whatever anybody left in it."""
    python = cluster.kubelet.images.pull("pod-python", "IfNotPresent")
    cluster.kubelet.images.add(IMAGE, replace(python, environment=gcs.environment))
    with ExitStack() as running:
        running.enter_context(cluster.namespace(NAMESPACE))
        grant(cluster, NAMESPACE)
        google = running.enter_context(container.running(machines=cluster.kubelet))
        google.add_cluster(
            RESOURCE,
            zones=ZONES,
            endpoint=cluster.plane.server.url.removeprefix("https://"),
            authority=cluster.plane.server.authority.read_bytes(),
        )
        quotas = running.enter_context(cloud_quotas.running())
        monitoring = running.enter_context(cloud_monitoring.running())
        quotas.grant(OF_V6E, 64, project=PROJECT, region=REGION)
        monitoring.use(OF_V6E, REGION, (32, 60.0), project=PROJECT)
        for zone in ZONES:
            quotas.grant(OF_V5E, 16, project=PROJECT, zone=zone)
            monitoring.use(OF_V5E, zone, (0, 60.0), project=PROJECT)
        key = running.enter_context(tokens.running(users.token_of(cluster.api, NAMESPACE, DRIVER), folder))
        server = running.enter_context(running_server(folder))
        own = {
            cloud_quotas.VARIABLE: quotas.url,
            cloud_monitoring.VARIABLE: monitoring.url,
            **gcs.environment,
            **google.environment,
            **key.environment,
        }
        yield World(
            cluster=cluster,
            google=google,
            server=server,
            output=f"gs://{gcs.new_bucket()}/jobs",
            environment={**server.environment, **own},
        )
