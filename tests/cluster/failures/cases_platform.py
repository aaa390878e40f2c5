"""Failures by which the platform takes a host away."""

from __future__ import annotations

from case import ACCELERATOR, HOSTS, Case
from control_plane import Object
from objects import TPU_TOLERATION
from ours import FIRST
from stage import Stage

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.errors import FailureKind

CHIPS = str(resolve(ACCELERATOR).chips_per_host)
SHUTDOWN_SECONDS = 10.0
EVICT = {"key": "tests.prefect-tpu/evict", "effect": "NoExecute"}
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
URGENT = "urgent"


def as_it_is(pod: Object) -> None:
    """JobSet's pod needs nothing else."""


def _taint(stage: Stage, jobset: str) -> None:
    stage.taint(stage.node(jobset), EVICT)


def _evict(stage: Stage, jobset: str) -> None:
    name = stage.pod(jobset)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": stage.name}}
    stage.api.post(f"{stage.path('v1', 'pods', name)}/eviction", body)


def make_priority(stage: Stage) -> None:
    """The class of pods that go before ours."""
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": URGENT}, "value": 1000}
    stage.api.apply(f"{PRIORITIES}/{URGENT}", body)


def _outrank(stage: Stage, jobset: str) -> None:
    """A pod that may go before ours wants the chips of host 1."""
    chips = {"google.com/tpu": CHIPS}
    container = {"name": "main", "image": "system", "command": ["sleep", "600"], "resources": {"limits": chips}}
    spec = {
        "priorityClassName": URGENT,
        "nodeSelector": {"kubernetes.io/hostname": stage.node(jobset)},
        "tolerations": [TPU_TOLERATION],
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    stage.make("v1", "pods", {"kind": "Pod", "metadata": {"name": f"urgent-{jobset}"}, "spec": spec})


def _withdraw(stage: Stage) -> None:
    """Whoever went before ours leaves again."""
    stage.api.delete(stage.path("v1", "pods", f"urgent-{FIRST}"))


def _reclaim(stage: Stage, jobset: str) -> None:
    stage.kubelet.reclaim_spot(stage.node(jobset))


def _shut_down(stage: Stage, jobset: str) -> None:
    stage.kubelet.shut_down(stage.node(jobset), seconds=SHUTDOWN_SECONDS)


def _delete_node(stage: Stage, jobset: str) -> None:
    stage.kubelet.delete_nodes(stage.node(jobset))


def _silence(stage: Stage, jobset: str) -> None:
    stage.kubelet.silence(stage.node(jobset))


def _maintain(stage: Stage, jobset: str) -> None:
    stage.kubelet.maintain(stage.node(jobset), seconds=SHUTDOWN_SECONDS)


def _delete_pod(stage: Stage, jobset: str) -> None:
    stage.api.delete(stage.path("v1", "pods", stage.pod(jobset)))


def _replace_pod(stage: Stage, jobset: str) -> None:
    """The Job may replace pods, which ours may not until somebody changes it."""
    stage.api.patch(stage.path("batch/v1", "jobs", f"{jobset}-s-0"), {"spec": {"backoffLimit": 3}}, "merge-patch")
    _delete_pod(stage, jobset)


def _delete_jobset(stage: Stage, jobset: str) -> None:
    stage.api.delete(stage.path("jobset.x-k8s.io/v1alpha2", "jobsets", jobset))


def _repair_elsewhere(stage: Stage, jobset: str) -> None:
    """The leader sits in a pool that lacks a host; then another slice becomes free."""
    stage.until(lambda: stage.node(jobset, 0), "the leader's node")
    stage.until(lambda: len(stage.pods(jobset)) == HOSTS, "the follower's pod")
    stage.add_pool("b", ACCELERATOR)


def _degraded(stage: Stage) -> None:
    stage.add_pool("a", ACCELERATOR, lambda nodes: nodes[:1])


TAKEN = dict(is_retryable=True, change_plain=as_it_is, is_quick=True)
CASES = (
    Case(
        name="noexecute-taint",
        title="The node is tainted NoExecute",
        kind=FailureKind.PREEMPTED,
        strike=_taint,
        **TAKEN,
    ),
    Case(
        name="eviction", title="The pod is evicted (Eviction API)", kind=FailureKind.PREEMPTED, strike=_evict, **TAKEN
    ),
    Case(
        name="priority",
        title="A pod of higher priority takes the chips",
        kind=FailureKind.PREEMPTED,
        prepare=make_priority,
        strike=_outrank,
        relieve=_withdraw,
        **TAKEN,
    ),
    Case(
        name="spot-reclaim",
        title="Spot VMs are reclaimed: 15 s, then the node is gone",
        kind=FailureKind.PREEMPTED,
        accelerator=f"{ACCELERATOR}:spot",
        strike=_reclaim,
        is_one_way=False,  # the kubelet's own end of the pod, or the taint of the node that falls silent
        **TAKEN,
    ),
    Case(
        name="shutdown", title="The node shuts down gracefully", kind=FailureKind.PREEMPTED, strike=_shut_down, **TAKEN
    ),
    Case(
        name="node-deleted",
        title="The Node object is deleted",
        kind=FailureKind.HOST_LOST,
        strike=_delete_node,
        plain_seconds=110.0,
        **TAKEN,
    ),
    Case(
        name="silent-node",
        title="The node falls silent",
        kind=FailureKind.HOST_LOST,
        strike=_silence,
        plain_seconds=60.0,
        **TAKEN,
    ),
    Case(
        name="maintenance",
        title="Maintenance of the host begins",
        kind=FailureKind.MAINTENANCE,
        strike=_maintain,
        **TAKEN,
    ),
    Case(
        name="pod-deleted",
        title="A pod is deleted by hand",
        kind=FailureKind.PREEMPTED,
        strike=_delete_pod,
        **TAKEN,
    ),
    Case(
        name="pod-replaced",
        title="One pod is replaced while the other hosts run on",
        kind=FailureKind.HOST_LOST,
        strike=_replace_pod,
        is_retryable=True,
        is_quick=True,
    ),
    Case(
        name="jobset-deleted",
        title="The JobSet is deleted by hand",
        kind=FailureKind.STOPPED,
        is_retryable=False,
        strike=_delete_jobset,
    ),
    Case(
        name="degraded-pool",
        title="The leader sits in a pool that lacks a host, and another slice is free",
        kind=FailureKind.UNSCHEDULABLE,
        is_retryable=True,
        pools=0,
        prepare=_degraded,
        waits_for="sent",
        strike=_repair_elsewhere,
        is_quick=True,
    ),
)
