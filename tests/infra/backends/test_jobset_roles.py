"""Which pods, Jobs and nodes of a JobSet are hosts' and which are helpers', read from the objects themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from prefect_tpu.infra.backends.jobset_facts import Said
from prefect_tpu.infra.backends.jobset_reading import node_labels, read_job, read_nodes, read_pod
from prefect_tpu.infra.backends.jobset_roles import Helpers, helpers_in, helpers_of
from tests.infra.gcp.golden_pathways import GOLDEN, pod_plan
from tests.infra.gcp.golden_plans import GOLDEN as OTHERS
from tests.infra.gcp.golden_plans import pod_plan as other_plan

FOLDER = Path(__file__).parents[1] / "gcp"
WORKERS = Helpers(job="worker", slices=2, pods=8)
BESIDE = {"name": "pathways-proxy", "restartPolicy": "Always"}


def jobset(name: str, folder: str = "golden_pathways") -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / folder / f"{name}.yaml").read_text())
    return found


def pod(job: str, index: int, number: int, **status: Any) -> dict[str, Any]:
    labels = {
        "jobset.sigs.k8s.io/replicatedjob-name": job,
        "jobset.sigs.k8s.io/job-index": str(index),
        "batch.kubernetes.io/job-completion-index": str(number),
    }
    metadata = {"name": f"{job}-{index}-{number}", "uid": "u", "labels": labels}
    return {"metadata": metadata, "spec": {"initContainers": [BESIDE, {"name": "once"}]}, "status": status}


def beside(**found: Any) -> list[dict[str, Any]]:
    return [{"name": "pathways-proxy", "state": {"running": {}}, **found}]


@pytest.mark.parametrize("name", GOLDEN)
def test_a_jobset_says_the_same_of_its_helpers_as_its_plan(name: str) -> None:
    planned, found = helpers_of(pod_plan(GOLDEN[name]).hosts), helpers_in(jobset(name))
    assert planned is not None and found is not None
    assert (found.job, found.slices, found.pods) == (planned.job, planned.slices, planned.pods)
    assert (found.spare > 0) == (planned.spare > 0)


@pytest.mark.parametrize("name", ["v6e", "two-slices", "cpu"])
def test_other_attempts_have_none(name: str) -> None:
    assert helpers_in(jobset(name, "golden")) is None and helpers_of(other_plan(OTHERS[name]).hosts) is None


def test_hosts_and_helpers_are_counted_each_for_themselves() -> None:
    head = read_pod(pod("pathways-head", 0, 0), 1, WORKERS)
    assert (head.host, head.is_helper) == (0, False)
    worker = read_pod(pod("worker", 1, 2), 1, WORKERS)
    assert (worker.host, worker.slice, worker.is_helper) == (6, 1, True)
    without = read_pod(pod("s", 1, 2), 4)
    assert (without.host, without.is_helper) == (6, False)


def test_a_job_is_known_by_its_pods_kind_and_whether_it_is_being_deleted() -> None:
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "worker", "jobset.sigs.k8s.io/job-index": "1"}
    going = {"metadata": {"name": "w", "labels": labels, "deletionTimestamp": "2026-11-28T10:00:00Z"}}
    found = read_job(going, WORKERS)
    assert (found.slice, found.is_helper, found.is_deleting) == (1, True, True)
    assert not read_job(going).is_helper


def test_nodes_are_asked_for_by_who_is_placed_on_them() -> None:
    found = jobset("v5p-two-slices")
    assert node_labels(found) == node_labels(found, "pathways-head") == "cloud.google.com/gke-nodepool=cpu-np"
    assert "gke-tpu-topology=2x2x4" in node_labels(found, "worker")
    spot = {"metadata": {"name": "n", "labels": {"cloud.google.com/gke-spot": "true"}}}
    assert not read_nodes([spot], found) and read_nodes([spot], found, "worker").keys() == {"n"}


def test_while_the_program_waits_for_what_starts_before_it_that_is_what_its_pod_waits_for() -> None:
    behind = [{"name": "host", "state": {"waiting": {"reason": "PodInitializing"}}}]
    pulls = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    found = read_pod(
        pod("pathways-head", 0, 0, containerStatuses=behind, initContainerStatuses=beside(state=pulls)), 1, WORKERS
    )
    assert found.container.waiting == Said(reason="ErrImagePull", message="not found")
    calm = read_pod(pod("pathways-head", 0, 0, containerStatuses=behind, initContainerStatuses=beside()), 1, WORKERS)
    assert calm.container.waiting == Said(reason="PodInitializing")


@pytest.mark.parametrize(
    ("restarts", "ended", "said"),
    [
        (2, {"exitCode": 1}, None),
        (3, {"exitCode": 1}, Said(reason="pathways-proxy", message="exit code 1")),
        (9, {"exitCode": 1, "message": "no such\nflag\n"}, Said(reason="pathways-proxy", message="no such flag")),
    ],
)
def test_what_runs_beside_the_program_and_ends_again_and_again_does_not_stay_up(
    restarts: int, ended: dict[str, Any], said: Said | None
) -> None:
    statuses = beside(restartCount=restarts, lastState={"terminated": ended})
    assert read_pod(pod("pathways-head", 0, 0, initContainerStatuses=statuses), 1, WORKERS).unsteady == said
    assert read_pod(pod("s", 0, 0, initContainerStatuses=statuses), 1).unsteady is None  # no Pathways, no session


def test_a_container_that_runs_once_before_the_others_may_be_tried_again() -> None:
    once = [{"name": "once", "restartCount": 9, "state": {}, "lastState": {}}]
    assert read_pod(pod("pathways-head", 0, 0, initContainerStatuses=once), 1, WORKERS).unsteady is None
