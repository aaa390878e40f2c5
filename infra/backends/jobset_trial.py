"""Do JobSet and Kueue answer in this cluster? A JobSet is tried and not made: the API server's dry run."""

from __future__ import annotations

from typing import Any

from prefect_tpu.infra.backends.jobset_checks import INSTALL_JOBSET
from prefect_tpu.infra.backends.jobset_question import Question
from prefect_tpu.infra.backends.jobset_reading import QUEUE
from prefect_tpu.infra.checks import Check, fail, ok, warn
from prefect_tpu.infra.gcp.errors import ClusterError, Forbidden, NotFound, Refused
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.resources import DEPLOYMENTS, JOBSETS

Object = dict[str, Any]
INSTALL_KUEUE = "https://kueue.sigs.k8s.io/docs/installation/"
_CONTROLLERS = {
    "jobset": ("jobset-system", "jobset-controller-manager"),
    "kueue": ("kueue-system", "kueue-controller-manager"),
}


async def jobset_checks(cluster: Kubernetes, question: Question) -> list[Check]:
    """A JobSet that is only tried: the API server and every webhook say what they would make of it."""
    try:
        tried = await cluster.dry_run(_trial(question))
    except NotFound as exc:
        if not exc.is_type:
            return []  # the namespace is not there, which is said already
        return [fail("jobset", "this cluster does not know JobSet", f"Install it: {INSTALL_JOBSET}")]
    except Forbidden:
        return [warn("jobset", "could not be tried: no permission to create one", "See the permissions above.")]
    except Refused as exc:
        return [fail("webhooks", f"a JobSet was refused: {exc.said}", "Change the policy, or what it asks for.")]
    except ClusterError as exc:
        return [fail("webhooks", f"a JobSet could not be tried: {exc}", "See whether JobSet's controller runs.")]
    version = await running_version(cluster, "jobset")
    return [ok("jobset", f"{JOBSETS.api_version}{version}"), *_webhooks(tried, question)]


def _webhooks(tried: Object, question: Question) -> list[Check]:
    """What webhooks add of their own tells whether they were there."""
    job = tried["spec"]["replicatedJobs"][0]["template"]["spec"]
    if job.get("completionMode") != "Indexed":
        advice = f"Install JobSet whole, with its webhooks: {INSTALL_JOBSET}"
        return [fail("webhooks", "JobSet's webhook did not see a JobSet that was tried", advice)]
    if question.queue and not tried["spec"].get("suspend"):
        advice = f"Let Kueue manage JobSets (integrations.frameworks): {INSTALL_KUEUE}"
        return [fail("webhooks", "Kueue's webhook let a JobSet of the queue pass", advice)]
    both = "JobSet's and Kueue's" if question.queue else "JobSet's"
    return [ok("webhooks", f"{both} answer")]


def _trial(question: Question) -> Object:
    """The least JobSet there is; what JobSet's webhook adds is left out."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "host", "image": "none"}]}
    job = {"template": {"spec": {"parallelism": 1, "completions": 1, "template": {"spec": pod}}}}
    labels = {QUEUE: question.queue} if question.queue else {}
    return {
        "apiVersion": JOBSETS.api_version,
        "kind": JOBSETS.kind,
        "metadata": {"name": "prefect-tpu-doctor", "namespace": question.namespace, "labels": labels},
        "spec": {"replicatedJobs": [{"name": "slice", **job}]},
    }


async def running_version(cluster: Kubernetes, controller: str) -> str:
    """`, v0.12.0`, by the image that its controller runs; empty where that cannot be seen."""
    namespace, name = _CONTROLLERS[controller]
    try:
        found = await cluster.find(DEPLOYMENTS, name, namespace)
    except ClusterError:
        return ""
    images = [str(one["image"]) for one in found["spec"]["template"]["spec"]["containers"]] if found else []
    tags = [image.rpartition(":")[2] for image in images if controller in image and ":" in image]
    return f", {tags[0]}" if tags else ""
