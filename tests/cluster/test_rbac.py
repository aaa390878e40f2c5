"""`deployments/gke/rbac.yaml` is enough to drive jobs, none of it is too much, the doctor names what is missing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from cluster import Cluster
from control_plane import users
from gcs import Gcs

from prefect_tpu.infra.backends import jobset_doctor
from prefect_tpu.infra.backends.base import Attempt, Refused
from prefect_tpu.infra.backends.jobset import JobSetBackend
from prefect_tpu.infra.backends.jobset_question import Question
from prefect_tpu.infra.checks import Check
from prefect_tpu.infra.gcp import permissions
from prefect_tpu.infra.gcp.permissions import CHECKING, DRIVING, QUEUEING, Permission
from prefect_tpu.infra.job import Program, SliceJob
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.state import Offer

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

DEPLOYMENTS = Path(__file__).parents[2] / "deployments/gke"
PATIENCE = 90.0
IMAGE = "python-with-bucket"
PLURALS = {"ServiceAccount": "serviceaccounts", "Role": "roles", "RoleBinding": "rolebindings"}
SHELL = "from prefect_tpu.flows.cli import main; main()"
COUNTS = "i=0; while [ $i -lt {count} ]; do echo line $i; i=$((i+1)); sleep 0.1; done"


def apply(cluster: Cluster, namespace: str, file: str) -> None:
    """As `kubectl apply --namespace` does."""
    for document in yaml.safe_load_all((DEPLOYMENTS / file).read_text()):
        version = document["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        name = document["metadata"]["name"]
        cluster.api.apply(f"{root}/namespaces/{namespace}/{PLURALS[document['kind']]}/{name}", document)


def kubeconfig_of(cluster: Cluster, namespace: str, account: str) -> Path:
    token = users.token_of(cluster.api, namespace, account)
    path = cluster.plane.folder / f"{namespace}-{account}.kubeconfig"
    return users.write_kubeconfig(path, cluster.plane.server, token, namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Whoever drives jobs as `prefect-tpu-driver`, from a shell."""

    namespace: str
    environment: Mapping[str, str]

    def says(self, *words: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-P", "-c", SHELL, *words],
            env=dict(self.environment), capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def run(self, name: str, count: int, *words: str) -> str:
        pods = ("--image", IMAGE, "--pod", "python=python", "--namespace", self.namespace)
        account = ("--service-account", "prefect-tpu-host")
        what = ("-a", "v6e-8", "--name", name, "--json", *words)
        return self.says("run", *pods, *account, *what, "sh", "--", "-c", COUNTS.format(count=count))


@pytest.fixture
def driver(cluster: Cluster, namespace: str, gcs: Gcs, bucket: str) -> Driver:
    apply(cluster, namespace, "rbac.yaml")
    python = cluster.kubelet.images.pull("pod-python", "IfNotPresent")
    cluster.kubelet.images.add(IMAGE, replace(python, environment=gcs.environment))
    own = {
        "KUBECONFIG": str(kubeconfig_of(cluster, namespace, "prefect-tpu-driver")),
        "PREFECT_TPU_OUTPUT": f"{bucket}/jobs",
    }
    return Driver(namespace=namespace, environment={**os.environ, **own})


def left_of(cluster: Cluster, namespace: str) -> list[str]:
    jobsets = cluster.api.get(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets")["items"]
    pods = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [one["metadata"]["name"] for one in (*jobsets, *pods)]


def test_whole_jobs_run_with_the_role_alone(
    driver: Driver, cluster: Cluster, namespace: str, fresh_pool: Callable[..., list[str]]
) -> None:
    fresh_pool("v6e-8")
    assert json.loads(driver.run("done", 5))["state"] == "succeeded"
    assert driver.says("logs", "done").splitlines()[-1].endswith("line 4")
    driver.run("ended", 600, "--detach")
    assert json.loads(driver.says("stop", "ended", "--json"))["state"] == "stopped"
    assert left_of(cluster, namespace) == []


def examine(kubeconfig: Path, question: Question, monkeypatch: pytest.MonkeyPatch) -> Sequence[Check]:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    return anyio.run(jobset_doctor.examine, question)


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[str]:
    """A namespace in which nothing is made but accounts."""
    with cluster.namespace("rights-of-drivers") as made:
        yield made.name


def without(cluster: Cluster, namespace: str, missing: Permission) -> Path:
    """The kubeconfig of an account that lacks one verb of the role."""
    name = re.sub("[^a-z0-9]+", "-", f"no {missing}")
    return cluster.plane.kubeconfig_for(namespace, name, rules_without(missing))


def rules_without(missing: Permission) -> list[dict[str, Any]]:
    """All that the role has but for one verb."""
    grants = [grant for grant in DRIVING + QUEUEING + CHECKING if missing not in grant.permissions]
    (less,) = (grant for grant in DRIVING + QUEUEING + CHECKING if missing in grant.permissions)
    verbs = tuple(verb for verb in less.verbs if verb != missing.verb)
    return permissions.rules([*grants, *([replace(less, verbs=verbs)] if verbs else [])])


@pytest.mark.parametrize("missing", permissions.permissions(DRIVING + QUEUEING + CHECKING), ids=str)
def test_the_doctor_names_the_verb_that_is_missing(
    missing: Permission, cluster: Cluster, shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = examine(without(cluster, shared, missing), Question(namespace=shared, queue="any"), monkeypatch)
    (told,) = (check for check in found if check.name == "permissions" and shared in check.found and check.advice)
    what = f"{missing.resource.full_name}{f'/{missing.part}' if missing.part else ''}"
    assert f"no {missing.verb} of {what} " in told.found
    assert told.verdict == ("warn" if missing in permissions.permissions(CHECKING) else "fail")


@pytest.mark.parametrize("missing", permissions.permissions(DRIVING), ids=str)
def test_a_job_is_refused_that_lacks_a_verb_and_told_which(
    missing: Permission, cluster: Cluster, shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything of it is made."""
    monkeypatch.setenv("KUBECONFIG", str(without(cluster, shared, missing)))
    pods = PodSettings(image=IMAGE, namespace=shared)
    program = Program(kind="command", target="true")
    job = SliceJob(name="any", program=program, accelerators=("v6e-8",), backend="jobset", pods=pods)
    attempt = Attempt(job=job, number=1, output="/shared/any")
    answer = anyio.run(JobSetBackend().provision, attempt, Offer(accelerator="v6e-8"))
    assert isinstance(answer, Refused) and answer.is_barred
    assert f"No permission in namespace {shared!r} of cluster 'test' to {missing}: " in answer.reason


def test_the_doctor_finds_the_role_whole(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    question = Question(namespace=driver.namespace, service_account="prefect-tpu-host", accelerators=("v6e-8",))
    found = examine(Path(driver.environment["KUBECONFIG"]), question, monkeypatch)
    assert [check.found for check in found if check.has_failed] == []
    told = {check.name: check.found for check in found}
    assert told["service account"] == "'prefect-tpu-host' is there"
    assert told["webhooks"] == "JobSet's answer"
    assert "may not be looked at" in told["slices of v6e-8"] and "may not be looked at" in told["namespace"]


def test_hosts_may_do_nothing(driver: Driver, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig = kubeconfig_of(cluster, driver.namespace, "prefect-tpu-host")
    found = examine(kubeconfig, Question(namespace=driver.namespace), monkeypatch)
    (denied,) = (check for check in found if check.name == "permissions")
    assert denied.has_failed and "nothing of what jobs need" in denied.found
