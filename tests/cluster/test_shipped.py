"""deployments/gke is enough: applied as it is, a job goes through its queue, and its reaper ends what was left."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import container
import pytest
import shipped
import tokens
from cluster import Cluster
from control_plane import users
from gcs import Gcs
from google.cloud.container_v1 import NodePool
from kubelet import python_image
from objects import JOBSETS

from prefect_tpu.infra.gcp import permissions
from prefect_tpu.infra.gcp.permissions import CHECKING, DRIVING, LOOKING, QUEUEING, REAPING
from prefect_tpu.infra.gcp.pool_names import Try

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

PATIENCE = 90.0
SHELL = "from prefect_tpu.flows.cli import main; main()"
WAIT = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
CLUSTER = "projects/my-project/locations/us-east5-b/clusters/my-cluster"  # as the manifest names it
BATCH = "/apis/batch/v1/namespaces"
Object = dict[str, Any]


@pytest.fixture(scope="module")
def namespace() -> str:
    """One for all tests here: a queue of the same name is not made anew at once."""
    return f"shipped-{os.urandom(2).hex()}"


@pytest.fixture(scope="module")
def applied(kueue: Cluster, namespace: str) -> Iterator[Cluster]:
    """Every file, as it is shipped."""
    with kueue.namespace(namespace):
        shipped.apply_all(kueue, namespace)
        shipped.apply(kueue, namespace, "kueue.yaml")
        yield kueue
    shipped.clean_up(kueue, namespace, "bindings.yaml", "kueue.yaml")


def test_each_account_may_do_its_own_and_no_more(applied: Cluster, namespace: str) -> None:
    for driver in shipped.both_names("driver", namespace):
        for grant in DRIVING + QUEUEING + CHECKING:
            assert shipped.may(applied, driver, namespace, grant) == set(grant.verbs), (driver, grant)
        assert all(shipped.may(applied, driver, None, grant) == set(grant.verbs) for grant in LOOKING)
    needed = permissions.permissions(REAPING)
    for reaper in shipped.both_names("reaper", namespace):
        for grant in REAPING + DRIVING + QUEUEING:
            own = {one.verb for one in needed if (one.resource, one.part) == (grant.resource, grant.part)}
            assert shipped.may(applied, reaper, namespace, grant) == own & set(grant.verbs), (reaper, grant)
    for host in shipped.both_names("host", namespace):
        assert not any(
            shipped.may(applied, host, namespace, grant) for grant in DRIVING + QUEUEING + CHECKING + LOOKING
        )


@pytest.fixture
def says(applied: Cluster, namespace: str, gcs: Gcs, bucket: str) -> Callable[..., str]:
    """Whoever drives jobs as the shipped account, from a shell."""
    token = users.token_of(applied.api, namespace, "prefect-tpu-driver")
    path = applied.plane.folder / f"{namespace}.kubeconfig"
    own = {
        "KUBECONFIG": str(users.write_kubeconfig(path, applied.plane.server, token, namespace)),
        "PREFECT_TPU_OUTPUT": f"{bucket}/jobs",
    }
    python = applied.kubelet.images.pull("pod-python", "IfNotPresent")
    applied.kubelet.images.add("program", replace(python, environment=gcs.environment))

    def ask(*words: str) -> str:
        shell = [sys.executable, "-P", "-c", SHELL, *words]
        environment = {**os.environ, **own}
        done = subprocess.run(shell, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return ask


def run(namespace: str, name: str, accelerator: str, *words: str) -> Sequence[str]:
    pods = ("--image", "program", "--pod", "python=python", "--pod", "cpu=1", "--pod", "memory=1Gi")
    where = ("--namespace", namespace, "--service-account", "prefect-tpu-host", "--queue", "tpus")
    return ("run", *pods, *where, "-a", accelerator, "--name", name, "--json", *words, "sh", "--", "-c")


def test_jobs_go_through_the_shipped_queue(
    says: Callable[..., str], applied: Cluster, namespace: str, fresh_pool: Callable[..., list[str]]
) -> None:
    """One with chips that wants processors and memory too, and one without chips: none waits for a quota forever."""
    fresh_pool("v6e-8")
    cpus = applied.add_cpus(f"cpus-{namespace}")
    try:
        for name, accelerator in (("chips", "v6e-8"), ("bare", "cpu-1x1")):
            assert json.loads(says(*run(namespace, name, accelerator), "echo done"))["state"] == "succeeded"
            assert "done" in says("logs", name)
    finally:
        applied.delete_nodes(*cpus)


@pytest.fixture
def google(applied: Cluster, namespace: str, tmp_path: Path) -> Iterator[tuple[container.Google, Mapping[str, str]]]:
    """Google, as it stands around this cluster, and how it is found: whoever asks gets the reaper's token."""
    token = users.token_of(applied.api, namespace, "prefect-tpu-reaper")
    server = applied.plane.server
    with container.running() as found, tokens.running(token, tmp_path) as given:
        endpoint, authority = server.url.removeprefix("https://"), server.authority.read_bytes()
        found.add_cluster(CLUSTER, endpoint=endpoint, authority=authority)
        yield found, {**found.environment, **given.environment}


@pytest.fixture
def launcher(
    applied: Cluster, namespace: str, gcs: Gcs, bucket: str, google: tuple[container.Google, Mapping[str, str]],
    tmp_path: Path,
) -> Callable[..., Object]:  # fmt: skip
    """A Job made of the CronJob, as `kubectl create job --from` makes one, with its image on this machine."""
    cron = applied.api.get(f"{BATCH}/{namespace}/cronjobs/prefect-tpu-reaper")
    image = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["image"]
    python = python_image(Path(sys.prefix))
    folders = (*python.folders, *shipped.folders(), tmp_path)
    applied.kubelet.images.add(image, replace(python, folders=folders, environment={**gcs.environment, **google[1]}))

    def job(name: str, *words: str) -> Object:
        spec = copy.deepcopy(cron["spec"]["jobTemplate"]["spec"])
        command = spec["template"]["spec"]["containers"][0]["command"]
        command[:] = [word.replace("gs://my-bucket", bucket) for word in command] + list(words)
        made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        return applied.api.post(f"{BATCH}/{namespace}/jobs", made)

    return job


def test_the_reaper_ends_what_was_left(
    says: Callable[..., str],
    launcher: Callable[..., Object],
    google: tuple[container.Google, Mapping[str, str]],
    applied: Cluster,
    namespace: str,
    fresh_pool: Callable[..., list[str]],
    until: Callable[..., Any],
) -> None:
    """A JobSet of an ended job, whose cluster was called otherwise by whoever ran it, and a pool past its deadline."""
    fresh_pool("v6e-8")
    says(*run(namespace, "left", "v6e-8", "--detach", "--cluster", "test"), WAIT)
    path = f"{JOBSETS}/namespaces/{namespace}/jobsets"
    found = until(lambda: applied.api.get(f"{path}/left-1"), "the JobSet")
    says("stop", "left")
    kept = {key: found["metadata"][key] for key in ("name", "labels", "annotations")}
    applied.api.post(path, {**{key: found[key] for key in ("apiVersion", "kind", "spec")}, "metadata": kept})
    tried = Try(job="gone", attempt=1, output="gs://nowhere/gone", accelerator="v6e-16", zone="us-east5-b")
    labels = tried.labels(made=1.0, deadline=2.0)
    config = {"machine_type": "ct6e-standard-4t", "labels": labels, "resource_labels": labels}
    google[0].add_pool(CLUSTER, NodePool(name=tried.name(0), config=config, status=NodePool.Status.RUNNING))
    launcher("look", "--dry-run")
    told = told_by(applied, namespace, "look", until)
    assert "would end JobSet 'left-1'" in told and f"would end node pool '{tried.name(0)}'" in told, told
    assert applied.api.get(f"{path}/left-1") and google[0].pools
    launcher("end")
    told = told_by(applied, namespace, "end", until)
    assert "ended JobSet 'left-1'" in told and f"ended node pool '{tried.name(0)}'" in told, told
    assert applied.api.get(path)["items"] == []
    until(lambda: not google[0].pools, "the end of the pool")


def told_by(cluster: Cluster, namespace: str, job: str, until: Callable[..., Any]) -> str:
    """What a Job has written, once it is over."""
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def ended() -> Object | None:
        found = cluster.api.get(pods, labelSelector=f"job-name={job}")["items"]
        return next((one for one in found if one["status"]["phase"] in ("Succeeded", "Failed")), None)

    pod = until(ended, f"the end of Job {job}")
    written = cluster.api.text(f"{pods}/{pod['metadata']['name']}/log")
    assert pod["status"]["phase"] == "Succeeded", written
    return written
