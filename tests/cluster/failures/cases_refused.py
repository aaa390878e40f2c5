"""Failures by which the cluster does not take a job, or has no place for it."""

from __future__ import annotations

from case import ACCELERATOR, Case, nothing
from cases_platform import CHIPS, URGENT, make_priority
from control_plane import Object
from objects import TPU_TOLERATION
from stage import Stage

from prefect_tpu.infra.errors import FailureKind

SOON = {"provision_timeout": 12.0}
RESTRICTED = "pod-security.kubernetes.io/enforce"
KUEUE = "kueue.x-k8s.io/v1beta1"


def _restrict(stage: Stage) -> None:
    stage.api.patch(f"/api/v1/namespaces/{stage.name}", {"metadata": {"labels": {RESTRICTED: "restricted"}}})


def _limit_chips(stage: Stage) -> None:
    spec = {"hard": {"requests.google.com/tpu": "2"}}
    stage.make("v1", "resourcequotas", {"kind": "ResourceQuota", "metadata": {"name": "chips"}, "spec": spec})


def _take_all(stage: Stage) -> None:
    """Pods of somebody else hold the one slice."""
    for number, node in enumerate(stage.nodes):
        container = {
            "name": "main", "image": "system", "command": ["sleep", "600"],
            "resources": {"limits": {"google.com/tpu": CHIPS}},
        }  # fmt: skip
        spec = {
            "nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": [TPU_TOLERATION],
            "containers": [container], "terminationGracePeriodSeconds": 1,
        }  # fmt: skip
        stage.make("v1", "pods", {"kind": "Pod", "metadata": {"name": f"other-{number}"}, "spec": spec})
        path = stage.path("v1", "pods", f"other-{number}")
        stage.until(lambda path=path: stage.api.get(path)["spec"].get("nodeName"), "the other's node")


def _few_chips(stage: Stage) -> None:
    def half(nodes: list[Object]) -> list[Object]:
        for node in nodes:
            for amounts in node["status"].values():
                amounts["google.com/tpu"] = str(int(CHIPS) // 2)
        return nodes

    stage.add_pool("a", ACCELERATOR, half)


def _queue(stage: Stage, **spec: object) -> None:
    """A queue of one slice's chips, for pools of this case."""
    flavor = {"metadata": {"name": stage.name}, "spec": {"nodeLabels": stage.selector, "tolerations": [TPU_TOLERATION]}}
    stage.api.apply(
        f"/apis/{KUEUE}/resourceflavors/{stage.name}", {"apiVersion": KUEUE, "kind": "ResourceFlavor", **flavor}
    )
    amounts = {"google.com/tpu": 2 * int(CHIPS), "cpu": 100, "memory": "500Gi"}
    quota = {"name": stage.name, "resources": [{"name": key, "nominalQuota": value} for key, value in amounts.items()]}
    cluster_queue = {
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [{"coveredResources": list(amounts), "flavors": [quota]}],
        **spec,
    }
    body = {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": stage.name}, "spec": cluster_queue}
    stage.api.apply(f"/apis/{KUEUE}/clusterqueues/{stage.name}", body)
    local = {"kind": "LocalQueue", "metadata": {"name": "queue"}, "spec": {"clusterQueue": stage.name}}
    stage.make(KUEUE, "localqueues", local)


def _open_queue(stage: Stage) -> None:
    make_priority(stage)
    _queue(stage)


def _stopped_queue(stage: Stage) -> None:
    _queue(stage, stopPolicy="Hold")


def _outrank_in_queue(stage: Stage, jobset: str) -> None:
    """A Job that goes before ours in the same queue."""
    chips = {"google.com/tpu": CHIPS, "cpu": "10m", "memory": "10Mi"}
    container = {
        "name": "main", "image": "system", "command": ["sleep", "600"],
        "resources": {"requests": chips, "limits": {"google.com/tpu": CHIPS}},
    }  # fmt: skip
    pod = {
        "restartPolicy": "Never", "priorityClassName": URGENT, "tolerations": [TPU_TOLERATION],
        "containers": [container], "terminationGracePeriodSeconds": 1,
    }  # fmt: skip
    metadata = {"name": "urgent", "labels": {"kueue.x-k8s.io/queue-name": "queue"}}
    spec = {"suspend": True, "template": {"spec": pod}}
    stage.make("batch/v1", "jobs", {"kind": "Job", "metadata": metadata, "spec": spec})


def _withdraw(stage: Stage) -> None:
    stage.api.delete(stage.path("batch/v1", "jobs", "urgent"), propagationPolicy="Background")


REFUSED = dict(kind=FailureKind.REFUSED, is_retryable=False, strike=nothing, waits_for="nothing")
ABSENT = dict(kind=FailureKind.NO_CAPACITY, is_retryable=True, strike=nothing, waits_for="nothing")
QUEUED = {"queue": "queue", "cpu": "10m", "memory": "1Gi"}
CASES = (
    Case(
        name="image-not-found",
        title="The image is not there",
        is_retryable=False,
        kind=FailureKind.IMAGE,
        pods={"image": "missing.example/training:1"},
        strike=nothing,
        waits_for="nothing",
    ),
    Case(
        name="image-name-invalid",
        title="The image's name is none",
        is_retryable=False,
        kind=FailureKind.IMAGE,
        pods={"image": "Training:1"},
        strike=nothing,
        waits_for="nothing",
    ),
    Case(
        name="admission", title="Admission refuses the pods (Pod Security `restricted`)", prepare=_restrict, **REFUSED
    ),
    Case(
        name="quota",
        title="A ResourceQuota is exceeded",
        kind=FailureKind.NO_QUOTA,
        is_retryable=False,
        prepare=_limit_chips,
        strike=nothing,
        waits_for="nothing",
    ),
    Case(
        name="no-service-account", title="The ServiceAccount is missing", pods={"service_account": "trainer"}, **REFUSED
    ),
    Case(name="no-secret", title="A Secret is missing", pods={"secrets": {"TOKEN": "hub/token"}}, **REFUSED),
    Case(
        name="no-config-map",
        title="A ConfigMap volume is missing",
        pods={"volumes": {"/settings": "configmap:run"}},
        **REFUSED,
    ),
    Case(
        name="no-claim", title="A claim is missing", pods={"volumes": {"/data": "claim:data"}}, settings=SOON, **ABSENT
    ),
    Case(name="no-pool", title="The cluster has no pool of this accelerator", pools=0, settings=SOON, **ABSENT),
    Case(
        name="all-taken",
        title="All slices are taken until `provision_timeout` (12 s here)",
        pools=1,
        prepare=_take_all,
        settings=SOON,
        **ABSENT,
    ),
    Case(
        name="too-many-chips", title="No node has as many chips", pools=0, prepare=_few_chips, settings=SOON, **ABSENT
    ),
    Case(
        name="queue-missing",
        title="The Kueue queue does not exist",
        pods={"queue": "nowhere"},
        needs_kueue=True,
        **REFUSED,
    ),
    Case(
        name="queue-stopped",
        title="The Kueue queue is stopped",
        pods=QUEUED,
        prepare=_stopped_queue,
        settings=SOON,
        needs_kueue=True,
        **ABSENT,
    ),
    Case(
        name="kueue-preemption",
        title="Kueue gives the quota to a job of higher priority",
        kind=FailureKind.PREEMPTED,
        is_retryable=True,
        pods=QUEUED,
        prepare=_open_queue,
        strike=_outrank_in_queue,
        relieve=_withdraw,
        is_quick=True,
        needs_kueue=True,
    ),
    Case(name="rbac", title="RBAC forbids to create JobSets", pods={"cluster": "limited"}, **REFUSED),
)
