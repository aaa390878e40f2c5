"""The objects of an attempt with Pathways: as the golden files have them, and right for whatever Pathways drives."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.accelerators import curated_names, resolve
from prefect_tpu.infra.gcp import names, ownership, placement
from prefect_tpu.infra.gcp.pathways_pods import INSTANCES
from prefect_tpu.infra.gcp.pool_names import taint_of
from prefect_tpu.infra.pathways import PathwaysSettings
from tests.infra.gcp.golden_pathways import FOLDER, GOLDEN, golden, objects, pod_plan, written
from tests.infra.gcp.golden_plans import IN_OWN_POOLS, Golden

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
DRIVEN = [shape.name for shape in map(resolve, curated_names()) if shape.generation in INSTANCES and shape.hosts <= 64]
goldens = st.builds(
    lambda name, capacity, slices, restarts: golden(
        name + capacity, slices, elastic_slices=slices - 1, slice_restarts=restarts
    ),
    st.sampled_from(DRIVEN),
    st.sampled_from(["", ":spot", ":flex-start", ":reserved=block"]),
    st.integers(1, 4),
    st.integers(1, 9),
)


def parts(golden: Golden) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The JobSet, and its two replicated jobs."""
    jobset = objects(golden)[-1]
    head, workers = jobset["spec"]["replicatedJobs"]
    return jobset, head, workers


def job_of(replicated: dict[str, Any]) -> dict[str, Any]:
    return dict(replicated["template"]["spec"])


def pod_of(replicated: dict[str, Any]) -> dict[str, Any]:
    return dict(job_of(replicated)["template"]["spec"])


def containers(replicated: dict[str, Any]) -> dict[str, dict[str, Any]]:
    pod = pod_of(replicated)
    return {one["name"]: one for one in [*pod.get("initContainers", ()), *pod["containers"]]}


@pytest.mark.parametrize("name", GOLDEN)
def test_every_manifest_is_the_golden_one(name: str) -> None:
    """A change that is meant: `python tests/infra/gcp/golden_pathways.py`, and look at the difference."""
    assert written(GOLDEN[name]) == (FOLDER / f"{name}.yaml").read_text()


def test_the_golden_set_has_no_leftovers() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == GOLDEN.keys()


@given(goldens)
def test_the_head_ends_the_attempt_and_there_is_a_worker_for_every_machine(golden: Golden) -> None:
    jobset, head, workers = parts(golden)
    shape = resolve(golden.accelerator)
    assert (head["name"], workers["name"]) == (names.HEAD, names.WORKERS)
    assert jobset["spec"]["successPolicy"] == {"operator": "All", "targetReplicatedJobs": [names.HEAD]}
    assert jobset["spec"]["coordinator"] == {"replicatedJob": names.HEAD, "jobIndex": 0, "podIndex": 0}
    assert workers["dependsOn"] == [{"name": names.HEAD, "status": "Ready"}] and "dependsOn" not in head
    assert (head["replicas"], job_of(head)["completions"]) == (1, 1)
    assert (workers["replicas"], job_of(workers)["completions"]) == (golden.slices, shape.hosts)
    chips = int(containers(workers)["pathways-worker"]["resources"]["limits"][placement.TPU])
    assert golden.slices * shape.hosts * chips == golden.slices * shape.chips
    (instances,) = [flag for flag in containers(head)["pathways-rm"]["args"] if flag.startswith("--instance_count")]
    assert instances == f"--instance_count={golden.slices}"


@given(goldens)
def test_kubernetes_restarts_only_what_is_elastic(golden: Golden) -> None:
    jobset, head, workers = parts(golden)
    settings = golden.pods["pathways"]
    assert jobset["spec"]["failurePolicy"] == {"maxRestarts": 0}
    assert (job_of(head)["backoffLimit"], pod_of(head)["restartPolicy"]) == (0, "Never")
    found = job_of(workers)["backoffLimit"], pod_of(workers)["restartPolicy"]
    limit = resolve(golden.accelerator).hosts * settings.slice_restarts
    assert found == ((limit, "OnFailure") if settings.elastic_slices else (0, "Never"))
    for job in (job_of(head), job_of(workers)):
        assert job["activeDeadlineSeconds"] > pod_plan(golden).provision_timeout + 86_400


@given(goldens)
def test_names_and_label_values_stay_within_their_limits(golden: Golden) -> None:
    jobset, _, workers = parts(golden)
    name = jobset["metadata"]["name"]
    assert len(name) == 22  # the longest there is
    head = f"{name}-{names.HEAD}-0-0.{name}"
    assert head == pod_plan(golden).hosts.addresses[0] and len(head) == 63  # JobSet writes it into a label
    last = f"{name}-{names.WORKERS}-{golden.slices - 1}-{job_of(workers)['completions'] - 1}"
    assert len(f"{last}-abcde") <= 63
    for replicated in jobset["spec"]["replicatedJobs"]:
        labels = replicated["template"]["metadata"]["labels"]
        assert labels.keys() == set(ownership.IDENTITY)


@pytest.mark.parametrize("name", GOLDEN)
def test_only_workers_whose_chips_are_joined_have_a_pool_to_themselves(name: str) -> None:
    jobset, head, workers = parts(GOLDEN[name])
    assert EXCLUSIVE not in {**jobset["metadata"]["annotations"], **head["template"]["metadata"]}
    annotations = workers["template"]["metadata"].get("annotations", {})
    assert (annotations.get(EXCLUSIVE) == placement.POOL) == (resolve(GOLDEN[name].accelerator).hosts > 1)


def test_the_head_needs_no_chips_and_stays_off_machines_that_may_go() -> None:
    _, head, workers = parts(GOLDEN["v5p-two-slices"])
    assert pod_of(head)["nodeSelector"] == {placement.POOL: "cpu-np"} and "tolerations" not in pod_of(head)
    (term,) = pod_of(head)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [{"key": placement.SPOT, "operator": "NotIn", "values": ["true"]}]
    assert pod_of(workers)["nodeSelector"][placement.SPOT] == "true"
    assert not [one for one in containers(head).values() if placement.TPU in str(one.get("resources"))]


def test_in_pools_of_its_own_workers_alone_tolerate_their_taint() -> None:
    """The head is where it always was: on the cluster's own machines without chips."""
    made = golden("v6e-16", slices=2, pods=IN_OWN_POOLS)
    _, head, workers = parts(made)
    (pool, _) = pod_plan(made).hosts.pools
    own = {**taint_of(pool), "operator": "Equal", "effect": "NoSchedule"}
    assert own in pod_of(workers)["tolerations"]
    assert not {"tolerations", "nodeSelector"} & pod_of(head).keys()


def test_the_program_s_own_is_in_its_container_alone() -> None:
    _, head, workers = parts(GOLDEN["everything"])
    program = containers(head)["host"]
    assert {one["name"] for one in program["env"]} >= {"WANDB_API_KEY", "HF_TOKEN"}
    assert "/data" in {one["mountPath"] for one in program["volumeMounts"]}
    assert program["resources"]["limits"]["memory"] == "100Gi"
    others = [one for name, one in {**containers(head), **containers(workers)}.items() if name != "host"]
    assert len(others) == 3
    for one in others:
        assert not {"WANDB_API_KEY", "HF_TOKEN"} & {entry["name"] for entry in one["env"]}
        assert {mount["mountPath"] for mount in one["volumeMounts"]} == {"/tmp"}
    for pod in (pod_of(head), pod_of(workers)):  # the rights, and what the images are fetched with, are both's
        assert (pod["serviceAccountName"], len(pod["imagePullSecrets"])) == ("trainer", 2)


def test_all_reach_the_resource_manager_and_the_proxy_by_the_head_s_name() -> None:
    _, head, workers = parts(GOLDEN["v6e"])
    for container in (containers(head)["pathways-proxy"], containers(workers)["pathways-worker"]):
        assert "--resource_manager_address=$(PATHWAYS_HEAD):29001" in container["args"]
        (named,) = [one for one in container["env"] if one["name"] == "PATHWAYS_HEAD"]
        assert named["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['jobset.sigs.k8s.io/coordinator']"
    beside = [one["name"] for one in pod_of(head)["initContainers"] if one["restartPolicy"] == "Always"]
    assert beside == ["pathways-rm", "pathways-proxy"]


def test_a_queue_is_asked_for_nothing_that_nobody_named() -> None:
    _, head, workers = parts(GOLDEN["kueue"])
    assert not [one for one in containers(head).values() if "resources" in one]
    assert containers(workers)["pathways-worker"]["resources"]["requests"] == {placement.TPU: "4"}


def test_what_a_program_runs_beside_the_chips_is_there_before_the_worker() -> None:
    _, head, workers = parts(GOLDEN["colocated"])
    (beside,) = pod_of(workers)["initContainers"]
    assert (beside["image"], beside["restartPolicy"]) == ("europe-docker.pkg.dev/project/images/beside:1", "Always")
    assert "args" not in beside
    for container in (containers(head)["pathways-proxy"], containers(workers)["pathways-worker"]):
        assert "--sidecar_name=external" in container["args"]


def test_everything_a_person_may_say_of_pathways_is_in_the_manifest() -> None:
    """A setting that is forgotten here would be taken, kept and ignored."""
    without = golden("v6e-16", slices=2)
    changed: dict[str, Any] = {
        "jax": "0.9.0",
        "version": "v",
        "server_image": "a:1",
        "proxy_image": "b:1",
        "scratch": "gs://other",
        "head_pool": "heads",
        "elastic_slices": 1,
        "slice_restarts": 9,
        "colocated_python": "c:1",
        "host_network": True,
        **{f"{part}_{what}": "3" for part in ("manager", "proxy") for what in ("cpu", "memory")},
        **{f"{part}_flags": ("--x",) for part in ("manager", "proxy", "worker")},
    }
    assert changed.keys() == {field.name for field in fields(PathwaysSettings)}
    for name, value in changed.items():
        base = golden("v6e-16", slices=2, elastic_slices=1) if name == "slice_restarts" else without
        settings = replace(base.pods["pathways"], **{name: value})
        assert objects(replace(base, pods={**base.pods, "pathways": settings})) != objects(base), name
