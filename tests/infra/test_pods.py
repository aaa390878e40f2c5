"""Settings of pods: what Kubernetes would refuse later is refused when it is asked for."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.names import ARCHIVE_FOLDER, SCRATCH_FOLDER
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.pods import PodSettings, in_pods, pod_settings

FULL: dict[str, Any] = {
    "image": "europe-docker.pkg.dev/p/r/train@sha256:ab12",
    "cluster": "gke://project/europe-west4/trainer",
    "fallback_clusters": ("gke://project/us-east5-a/spare", "other"),
    "zones": ("europe-west4-a", "us-east5-b"),
    "make_pools": True,
    "node_service_account": "nodes@project.iam.gserviceaccount.com",
    "namespace": "research",
    "python": "/opt/venv/bin/python",
    "service_account": "trainer",
    "pull_secrets": ("registry", "mirror.example"),
    "cpu": "90",
    "memory": "100Gi",
    "ephemeral_storage": "50Gi",
    "shared_memory": "32Gi",
    "priority_class": "high",
    "queue": "tpus",
    "reservation": "projects/other-project/reservations/v6e-block",
    "provisioning_request": "digits-request",
    "secrets": {"WANDB_API_KEY": "wandb/api-key"},
    "volumes": {
        "/data": "gs://bucket.example/a/b",
        "/config": "configmap:settings",
        "/tls": "secret:tls",
        "/cache": "claim:cache",
        "/spare": "empty",
        "/tmp/x": "empty:10Gi",
    },
    "node_selector": {"cloud.google.com/gke-nodepool": "pool-a"},
    "labels": {"team": "vision", "example.com/cost": ""},
    "annotations": {"example.com/note": "anything: at all, even a line\n"},
    "ttl": 0,
    "pathways": None,
}


def test_everything_that_may_be_said() -> None:
    pods = pod_settings({**FULL, "pull_secrets": list(FULL["pull_secrets"])})
    assert asdict(pods) == FULL
    assert PodSettings.from_json(json.loads(json.dumps(asdict(pods)))) == pods


def test_a_job_keeps_its_pods(make_job: Any) -> None:
    job = make_job(backend="jobset", slices=2, pods=pod_settings(FULL))
    assert SliceJob.from_json(job.to_json()) == job


def test_a_variable_is_a_secret_or_it_is_not(make_job: Any) -> None:
    with pytest.raises(UsageError, match="env and the secrets of pods both have 'TOKEN'"):
        make_job(env={"TOKEN": "hush"}, pods=PodSettings(image="python", secrets={"TOKEN": "hub/token"}))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"image": ""}, "The image is ''"),
        ({"image": "a b"}, "name one that has Python"),
        ({"image": None}, "The image is None"),
        ({"cluster": "two words"}, "cluster is 'two words'"),
        ({"fallback_clusters": "other"}, "fallback_clusters is 'other': give a list"),
        ({"fallback_clusters": ("",)}, "fallback_clusters is ''"),
        ({"fallback_clusters": ("two words",)}, "fallback_clusters is 'two words'"),
        ({"cluster": "c", "fallback_clusters": ("a", "b", "a")}, "A cluster is named twice"),
        ({"cluster": "a", "fallback_clusters": ("a",)}, "A cluster is named twice"),
        ({"fallback_clusters": ("a",)}, "name the first choice as cluster"),
        ({"zones": "us-east5-b"}, "zones is 'us-east5-b': give a list"),
        ({"zones": ("us-east5",)}, "zones has 'us-east5': give zones of Google Cloud"),
        ({"zones": (5,)}, "zones has 5"),
        ({"cluster": "gke://p/training"}, "Cluster 'gke://p/training' is not the name of one"),
        ({"cluster": "c", "fallback_clusters": ("gs://bucket",)}, "Cluster 'gs://bucket' is not the name of one"),
        ({"zones": ("us-east5-b", "us-east5-b")}, "A zone is named twice"),
        ({"make_pools": "yes"}, "make_pools is 'yes': give true or false"),
        ({"node_service_account": "nodes"}, "node_service_account is 'nodes': give an email address"),
        ({"python": ""}, "python is ''"),
        ({"python": None}, "python is ''"),
        ({"namespace": "Research"}, "namespace is 'Research'"),
        ({"namespace": ""}, "namespace is ''"),
        ({"namespace": "a" * 64}, "at most 63"),
        ({"queue": "a.b"}, "queue is 'a.b'"),
        ({"service_account": "Trainer"}, "service_account is 'Trainer'"),
        ({"priority_class": ""}, "priority_class is ''"),
        ({"provisioning_request": "-a"}, "provisioning_request is '-a'"),
        ({"pull_secrets": "registry"}, "pull_secrets is 'registry': give a list"),
        ({"pull_secrets": ("A",)}, "pull_secrets is 'A'"),
        ({"pull_secrets": (None,)}, "pull_secrets is ''"),
        ({"cpu": 8}, "cpu is 8"),
        ({"memory": "16 Gi"}, "memory is '16 Gi'"),
        ({"shared_memory": "16GiB"}, "shared_memory is '16GiB'"),
        ({"ephemeral_storage": "-1"}, "ephemeral_storage is '-1'"),
        ({"reservation": "a/b"}, "reservation is 'a/b'"),
        ({"reservation": "projects/P!/reservations/r"}, "projects/PROJECT/reservations/NAME"),
        ({"reservation": "projects/p/reservations/"}, "reservation is"),
        ({"secrets": {"A B": "s/k"}}, "cannot be in the variable 'A B'"),
        ({"secrets": {"PREFECT_TPU_HOST": "s/k"}}, "cannot be in the variable"),
        ({"secrets": {"TOKEN": "hush hush"}}, "The secret of 'TOKEN' must be named as 'secret/key'"),
        ({"secrets": {"TOKEN": "Upper/key"}}, "must be named"),
        ({"secrets": {"TOKEN": 7}}, "must be named"),
        ({"secrets": "TOKEN=s/k"}, "secrets is str: give a dictionary"),
        ({"volumes": {"data": "empty"}}, "mounted at 'data'"),
        ({"volumes": {"//": "empty"}}, "other than '/'"),
        ({"volumes": {"/a/../b": "empty"}}, "give an absolute path"),
        ({"volumes": {"/a:b": "empty"}}, "give an absolute path"),
        ({"volumes": {"/dev/shm": "empty"}}, "/dev/shm, which is prefect-tpu's own"),
        ({"volumes": {"/prefect-tpu/scratch/x": "empty"}}, "prefect-tpu's own"),
        ({"volumes": {"/a": "empties"}}, "The volume at /a is 'empties'"),
        ({"volumes": {"/a": "empty:big"}}, "empty or empty:SIZE"),
        ({"volumes": {"/a": "gs://B"}}, "write gs://bucket/folder"),
        ({"volumes": {"/a": "gs://bucket/a,ro"}}, "write gs://bucket/folder"),
        ({"volumes": {"/a": "claim:"}}, "claim:NAME"),
        ({"volumes": {"/a": "/host"}}, "The volume at /a is '/host'"),
        ({"node_selector": {"a": "b c"}}, "node_selector has a='b c'"),
        ({"node_selector": {"a/b/c": "d"}}, "which is no key"),
        ({"labels": {"a": 1}}, "labels has a=1"),
        ({"labels": {"a": "b" * 64}}, "at most 63"),
        ({"labels": {"prefect-tpu/job": "other"}}, "set by prefect-tpu itself"),
        ({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "has an option"),
        ({"annotations": {"a": 1}}, "so write '1'"),
        ({"annotations": {"": "b"}}, "which is no key"),
        ({"ttl": -1}, "ttl is -1"),
        ({"ttl": 1.5}, "whole number of seconds"),
        ({"ttl": 2**31}, "ttl is"),
    ],
)
def test_what_no_cluster_takes(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("(", r"\(")) as caught:
        PodSettings(**{"image": "python", **change})
    assert "hush" not in str(caught.value)


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"Pods have no setting 'que'\. Did you mean 'queue'\?"):
        pod_settings({"image": "python", "que": "tpus"})
    with pytest.raises(UsageError, match=r"They have: image, cluster, fallback_clusters"):
        pod_settings({"image": "python", "zzz": "tpus"})


def test_whoever_speaks_of_pods_wants_a_cluster() -> None:
    assert in_pods(None, {}) == {}
    assert in_pods("local", {}) == {"backend": "local"}
    assert in_pods(None, {"image": "python"}) == {"backend": "jobset", "pods": PodSettings(image="python")}
    assert in_pods("jobset", {"image": "python"})["pods"].image == "python"
    for backend, given in (("jobset", {}), (None, {"cluster": "trainer"}), (None, {"queue": "tpus"})):
        with pytest.raises(UsageError, match="need an image: .*--image"):
            in_pods(backend, given)
    with pytest.raises(UsageError, match="The local backend has no pods, and image, queue was given"):
        in_pods("local", {"image": "python", "queue": "tpus"})


def test_the_folders_that_are_ours_are_refused() -> None:
    for folder in (ARCHIVE_FOLDER, SCRATCH_FOLDER, "/dev/shm"):
        with pytest.raises(UsageError, match="prefect-tpu's own"):
            PodSettings(image="python", volumes={folder: "empty"})
