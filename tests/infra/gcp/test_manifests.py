"""The objects of an attempt: as the golden files have them, and right for every slice there is."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from math import prod
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.accelerators import curated_names, resolve
from prefect_tpu.infra.gcp import manifests, names, ownership, placement
from prefect_tpu.infra.pods import PodSettings
from tests.infra.gcp.golden_plans import ARCHIVE, FOLDER, GOLDEN, Golden, objects, pod_plan, written

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
ON_GKE = [
    shape.name
    for shape in map(resolve, curated_names())
    if (shape.machine_type or shape.platform == "cpu") and shape.hosts <= 64
]
capacities = st.sampled_from(["", ":spot", ":on-demand", ":flex-start", ":reserved=block"])
accelerators = st.sampled_from(ON_GKE).flatmap(
    lambda name: st.just(name) if name == "cpu" else capacities.map(lambda capacity: name + capacity)
)
goldens = st.builds(
    Golden,
    accelerator=accelerators,
    slices=st.integers(1, 4),
    job=st.from_regex(r"[a-z][a-z0-9-]{0,17}", fullmatch=True),
    attempt=st.integers(1, 999),
    grace=st.floats(0.1, 1e6),
)


def jobset(golden: Golden) -> dict[str, Any]:
    return objects(golden)[-1]


def job_of(manifest: dict[str, Any]) -> dict[str, Any]:
    (replicated,) = manifest["spec"]["replicatedJobs"]
    return replicated["template"]["spec"]


def container_of(manifest: dict[str, Any]) -> dict[str, Any]:
    (container,) = job_of(manifest)["template"]["spec"]["containers"]
    return container


@pytest.mark.parametrize("name", GOLDEN)
def test_every_manifest_is_the_golden_one(name: str) -> None:
    """A change that is meant: `python tests/infra/gcp/golden_plans.py`, and look at the difference."""
    assert written(GOLDEN[name]) == (FOLDER / f"{name}.yaml").read_text()


def test_the_golden_set_has_no_leftovers_and_one_config_map() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == {*GOLDEN, "config-map"}
    for golden in GOLDEN.values():
        config_map, _ = objects(replace(golden, pods={**golden.pods, "namespace": "default"}))
        assert config_map == yaml.safe_load((FOLDER / "config-map.yaml").read_text())


def test_the_config_map_is_what_hosts_run_and_never_changes() -> None:
    config_map, manifest = objects(GOLDEN["v6e"])
    assert config_map["immutable"] is True
    assert base64.b64decode(config_map["binaryData"]["host.pyz"]) == ARCHIVE
    assert config_map["metadata"]["labels"].keys() == set(ownership.ARCHIVE_IDENTITY)
    volumes = {volume["name"]: volume for volume in job_of(manifest)["template"]["spec"]["volumes"]}
    assert volumes["prefect-tpu-host"]["configMap"] == {"name": config_map["metadata"]["name"]}
    assert manifests.config_map(b"other", "default")["metadata"]["name"] != config_map["metadata"]["name"]


@given(goldens)
def test_chips_hosts_and_slices_are_the_accelerators(golden: Golden) -> None:
    manifest, shape = jobset(golden), resolve(golden.accelerator)
    job, slices = job_of(manifest), manifest["spec"]["replicatedJobs"][0]["replicas"]
    limits = container_of(manifest).get("resources", {}).get("limits", {})
    chips = int(limits.get(placement.TPU) or limits.get(placement.GPU) or 1)
    assert job["completions"] == job["parallelism"] == shape.hosts
    assert slices * job["completions"] * chips == golden.slices * shape.chips
    if shape.platform == "tpu":
        selector = job["template"]["spec"]["nodeSelector"]
        assert prod(map(int, selector["cloud.google.com/gke-tpu-topology"].split("x"))) == shape.chips


@given(goldens)
def test_names_and_label_values_stay_within_their_limits(golden: Golden) -> None:
    plan, manifest = pod_plan(golden), jobset(golden)
    last = f"{manifest['metadata']['name']}-s-{golden.slices - 1}-{plan.shape.hosts - 1}"
    assert plan.hosts.addresses[-1] == f"{last}.{manifest['metadata']['name']}"
    assert len(plan.hosts.addresses[-1]) <= 63 and len(f"{last}-abcde") <= 63
    labels = [manifest["metadata"]["labels"], job_of(manifest)["template"]["metadata"]["labels"]]
    for key, value in (item for group in labels for item in group.items()):
        assert len(value) <= 63 and len(key.rpartition("/")[2]) <= 63


@given(goldens)
def test_kubernetes_restarts_nothing_and_ends_everything(golden: Golden) -> None:
    manifest = jobset(golden)
    job = job_of(manifest)
    pod = job["template"]["spec"]
    assert manifest["spec"]["failurePolicy"] == {"maxRestarts": 0}
    assert (job["backoffLimit"], job["completionMode"], pod["restartPolicy"]) == (0, "Indexed", "Never")
    assert "podFailurePolicy" not in job and "podReplacementPolicy" not in job
    grace = pod["terminationGracePeriodSeconds"]
    assert grace >= pod_plan(golden).hosts.grace and (grace <= 15 or not golden.accelerator.endswith(":spot"))
    assert job["activeDeadlineSeconds"] > pod_plan(golden).provision_timeout + 86_400 + grace - 15
    labels = manifest["metadata"]["labels"]
    assert int(labels[ownership.LIFETIME]) > job["activeDeadlineSeconds"] + manifest["spec"]["ttlSecondsAfterFinished"]


def test_a_deadline_ends_the_jobs_after_the_longest_wait_and_the_run() -> None:
    deadline = job_of(jobset(replace(GOLDEN["v6e"], deadline=100.5)))["activeDeadlineSeconds"]
    assert deadline == 86_400 + 101 + 30 + 600


@given(goldens)
def test_the_same_plan_is_the_same_manifest_and_another_one_is_told_apart(golden: Golden) -> None:
    plan = pod_plan(golden)
    labels = ownership.attempt_labels(plan.hosts)
    assert jobset(golden) == jobset(golden)
    assert jobset(golden)["metadata"]["labels"].items() >= labels.items() and labels.keys() == set(ownership.IDENTITY)
    other = ownership.attempt_labels(replace(plan.hosts, output="gs://other/jobs/x"))
    assert {name for name in labels if labels[name] != other[name]} == {ownership.PLAN}
    assert ownership.attempt_selector(plan.hosts).count("=") == len(labels)


def test_a_secret_is_named_and_its_value_is_nowhere() -> None:
    manifest = jobset(replace(GOLDEN["v6e"], pods={"secrets": {"TOKEN": "hub/token"}}))
    named = [entry for entry in container_of(manifest)["env"] if entry["name"] == "TOKEN"]
    assert named == [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}]
    plan = replace(pod_plan(GOLDEN["v6e"]).hosts, env={"MINE": "hush hush"})
    assert "hush" not in json.dumps(manifests.jobset(replace(pod_plan(GOLDEN["v6e"]), hosts=plan), "a"))


def test_a_host_learns_which_one_it_is_and_what_it_belongs_to() -> None:
    manifest = jobset(GOLDEN["two-slices"])
    env = {entry["name"]: entry for entry in container_of(manifest)["env"]}
    label = env["PREFECT_TPU_SLICE"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert label == "metadata.labels['jobset.sigs.k8s.io/job-index']"
    assert env["PREFECT_TPU_ATTEMPT"]["value"] == "gs://bucket/jobs/digits/1"
    assert not [name for name in env if name.startswith(("TPU_", "MEGASCALE_", "JAX_"))]  # the runner's to say
    assert container_of(manifest)["command"] == [
        "python3",
        f"{names.ARCHIVE_FOLDER}/{names.ARCHIVE_FILE}",
        "gs://bucket/jobs/digits/attempts/1/plan.json",
    ]


@pytest.mark.parametrize("name", GOLDEN)
def test_only_hosts_whose_chips_are_joined_have_a_pool_to_themselves(name: str) -> None:
    shape = resolve(GOLDEN[name].accelerator)
    annotations = jobset(GOLDEN[name])["metadata"]["annotations"]
    assert (annotations.get(EXCLUSIVE) == placement.POOL) == (shape.platform == "tpu" and shape.hosts > 1)


def test_a_queue_is_a_label_and_is_asked_for_chips_alone() -> None:
    manifest = jobset(GOLDEN["kueue"])
    assert manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "tpus"
    assert container_of(manifest)["resources"]["requests"] == {placement.TPU: "4"}
    named = jobset(replace(GOLDEN["kueue"], pods={"queue": "tpus", "memory": "9Gi"}))
    assert container_of(named)["resources"]["requests"] == {placement.TPU: "4", "memory": "9Gi"}


def test_what_was_asked_for_is_a_limit_but_for_cpus_and_what_is_known_is_none() -> None:
    known = container_of(jobset(GOLDEN["v6e"]))["resources"]
    assert known["requests"] == {"cpu": "144", "memory": "576G", placement.TPU: "4"}
    assert known["limits"] == {placement.TPU: "4"}
    asked = container_of(jobset(replace(GOLDEN["v6e"], pods={"cpu": "8", "memory": "9Gi"})))["resources"]
    assert asked["requests"] == {"cpu": "8", "memory": "9Gi", placement.TPU: "4"}
    assert asked["limits"] == {"memory": "9Gi", placement.TPU: "4"}
    assert "resources" not in container_of(jobset(GOLDEN["cpu"]))


def test_settings_of_pods_that_are_not_said_are_not_there() -> None:
    pod = job_of(jobset(GOLDEN["cpu"]))["template"]["spec"]
    wanted = {"priorityClassName", "serviceAccountName", "imagePullSecrets", "nodeSelector", "tolerations", "affinity"}
    assert not wanted & pod.keys() and pod["automountServiceAccountToken"] is False
    full = job_of(jobset(GOLDEN["everything"]))["template"]["spec"]
    assert wanted <= full.keys()


def test_everything_a_person_may_say_of_pods_is_in_the_manifest() -> None:
    """A setting that is forgotten here would be taken, kept and ignored."""
    without, not_in_it = jobset(GOLDEN["v6e"]), {"cluster", "image", "python", "namespace"}
    of_others = {"fallback_clusters", "make_pools", "node_service_account"}  # of which cluster it is, and of its nodes
    of_others |= {"pathways"}  # of another backend
    changed: dict[str, Any] = {
        **{name: value for name, value in GOLDEN["everything"].pods.items() if name not in not_in_it},
        "zones": ("us-east5-b",),
        "queue": "tpus",
        "reservation": "block",
        "provisioning_request": "request",
    }
    assert {*changed, *not_in_it, *of_others} == set(PodSettings.__dataclass_fields__)
    for name, value in changed.items():
        assert jobset(replace(GOLDEN["v6e"], pods={name: value})) != without, name
