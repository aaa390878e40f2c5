"""deployments/gke/worker.yaml is enough: applied as it is, its two workers come up, and flows run, whoever is lost."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import shipped
from control_plane import ApiError
from kubelet import python_image
from pool_workers import Workers
from prefect_server import Server
from slice_pool import SlicePool, Stage, variables_of
from witness import Witness

from prefect_tpu.infra.gcp import permissions
from prefect_tpu.infra.gcp.permissions import CHECKING, DRIVING, LOOKING, QUEUEING, WORKING, Grant
from prefect_tpu.infra.gcp.resources import SECRETS
from prefect_tpu.infra.launcher.lease import driver_of

pytestmark = [pytest.mark.work_pool, pytest.mark.timeout(600)]

WORKER = "prefect-tpu-worker"
Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """The workers of the manifest, in a namespace of their own, for a Prefect server."""

    stage: Stage
    server: Server
    namespace: str
    output: str

    @property
    def api(self) -> Any:
        return self.stage.cluster.api

    def deployment(self) -> Object:
        found: Object = self.api.get(f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{WORKER}")
        return found

    def pods(self) -> dict[str, Object]:
        """By name; those that are on their way out are left out."""
        label = f"app.kubernetes.io/name={WORKER}"
        items = self.api.get(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=label)["items"]
        return {one["metadata"]["name"]: one for one in items if "deletionTimestamp" not in one["metadata"]}

    def polling(self) -> set[str]:
        """The workers of the pool that Prefect's server hears of."""
        if "tpu" not in {pool["name"] for pool in self.server.ask("/work_pools/filter", limit=100)}:
            return set()  # the first of them makes it
        found = self.server.ask("/work_pools/tpu/workers/filter", limit=100)
        return {one["name"] for one in found if one["status"] == "ONLINE"}

    def is_whole(self) -> bool:
        status = self.deployment()["status"]
        return bool(status.get("availableReplicas") == 2 and self.polling() >= set(self.pods()))

    def evict(self, pod: str) -> int:
        """Ask for the end of a pod as `kubectl drain` does; the status of the answer."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        try:
            self.api.post(f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction", eviction)
        except ApiError as error:
            return int(error.status)
        return 201

    @contextmanager
    def pool(self) -> Iterator[SlicePool]:
        """Theirs; it has no others."""
        none = Workers(pool="tpu", folder=self.stage.folder, environment={})
        with Witness(self.api, self.namespace) as witness:
            yield SlicePool(
                name="tpu", stage=self.stage, server=self.server, namespace=self.namespace, output=self.output,
                workers=none, variables=variables_of(self.namespace, self.output), witness=witness,
            )  # fmt: skip


def documents(namespace: str, bucket: str) -> Iterator[Object]:
    """Of the file, with a bucket that is there."""
    for document in shipped.documents("worker.yaml", namespace):
        yield json.loads(json.dumps(document).replace("gs://my-bucket", bucket))


def add_image(stage: Stage, name: str) -> None:
    """The launcher's, as far as this machine has it."""
    image = python_image(Path(sys.prefix))
    folders = (*image.folders, *shipped.folders())
    stage.cluster.kubelet.images.add(name, replace(image, folders=folders, environment=stage.gcs.environment))


@pytest.fixture(scope="module")
def workers(stage: Stage, sqlite: Server, until: Callable[..., Any]) -> Iterator[Shipped]:
    """Applied, and up."""
    namespace, bucket = f"shipped-{os.urandom(2).hex()}", f"gs://{stage.gcs.new_bucket()}"
    cluster = stage.cluster
    found = Shipped(stage=stage, server=sqlite, namespace=namespace, output=f"{bucket}/jobs")
    with cluster.namespace(namespace):
        shipped.apply_all(cluster, namespace)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "prefect-api"}}
        told = {"stringData": {"url": sqlite.environment["PREFECT_API_URL"]}}
        cluster.api.apply(f"/api/v1/namespaces/{namespace}/secrets/prefect-api", {**secret, **told})
        for document in documents(namespace, bucket):
            if document["kind"] == "Deployment":
                add_image(stage, document["spec"]["template"]["spec"]["containers"][0]["image"])
            cluster.api.apply(shipped.path_of(document, namespace), document)
        until(found.is_whole, "two workers that poll")
        yield found
    shipped.clean_up(cluster, namespace, "bindings.yaml", "worker.yaml")


def test_the_worker_may_do_its_own_and_no_more(workers: Shipped) -> None:
    cluster, namespace = workers.stage.cluster, workers.namespace
    every = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
    for worker in shipped.both_names("worker", namespace):
        for grant in DRIVING + QUEUEING + CHECKING + WORKING:
            assert shipped.may(cluster, worker, namespace, grant) == set(grant.verbs), (worker, grant)
        assert all(shipped.may(cluster, worker, None, grant) == set(grant.verbs) for grant in LOOKING)
        of_secrets = shipped.may(cluster, worker, namespace, Grant(resource=SECRETS, verbs=every, reason=""))
        assert of_secrets == {one.verb for one in permissions.permissions(WORKING) if one.resource == SECRETS}
    for other in (*shipped.both_names("driver", namespace), *shipped.both_names("host", namespace)):
        assert not any(shipped.may(cluster, other, namespace, grant) for grant in WORKING)


def test_a_flow_runs_and_goes_on_while_the_node_of_its_worker_is_drained(
    workers: Shipped, until: Callable[..., Any]
) -> None:
    """Its worker may go and the other one may not, until there are two again."""
    with workers.pool() as pool:
        run = pool.start(pool.deploy("once", **pool.variables))
        run.wait_until_up(1, hosts=1)
        driver = until(lambda: driver_of(run.folder), "whoever drives the job")
        (other,) = workers.pods().keys() - {driver.host}
        assert workers.evict(driver.host) == 201
        assert workers.evict(other) == 429
        until(workers.is_whole, "two workers again")
        run.let_go_on()
        assert run.wait_for_end()["type"] == "COMPLETED"
        assert run.attempts() == [1]
        run.wait_until_gone()
