"""Did the platform end this host, and why? One pod and its node → a `Cause`, or None where it was the program's doing.

Decided from the reasons of conditions and of container states. Two reasons stand for several things, and then
the node tells them apart: what Google takes away for maintenance, what is lost without a word, and spot.
"""

from __future__ import annotations

from prefect_tpu.infra.backends.jobset_facts import Facts, NodeFacts, PodFacts, Said
from prefect_tpu.infra.backends.jobset_records import record_of
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.state import Cause

# The reasons of the condition DisruptionTarget: what it is, where the node knows no better, and in our words.
DISRUPTIONS = {
    "DeletionByTaintManager": (FailureKind.PREEMPTED, "its node was tainted NoExecute"),
    "EvictionByEvictionAPI": (FailureKind.PREEMPTED, "it was evicted, as by a drain or an upgrade of the node"),
    "PreemptionByScheduler": (FailureKind.PREEMPTED, "a pod of a higher priority took its place"),
    "TerminationByKubelet": (FailureKind.PREEMPTED, "its node was shut down"),
    "DeletionByPodGC": (FailureKind.HOST_LOST, "its node is gone"),
}
_NODE_DECIDES = frozenset(DISRUPTIONS) - {"PreemptionByScheduler"}
# Container states that end by no doing of the program.
_ENDED = {
    "OOMKilled": FailureKind.OUT_OF_MEMORY,
    "StartError": FailureKind.IMAGE,
    "ContainerCannotRun": FailureKind.IMAGE,
}
EVICTED = "Evicted"  # the pod's own reason where a kubelet ended it for lack of something
_FORGOTTEN = ("Unknown", "ContainerStatusUnknown")  # by a kubelet that finds nothing of a container that ran
_CLEARED = "SuccessfulDelete"  # the Job controller's event for each pod that it deletes, with the name as its last word
_LACKS_MEMORY = "low on resource: memory"  # which resource stands in the message alone


def cause_of(pod: PodFacts, node: NodeFacts | None) -> Cause | None:
    """Why the platform ended this host, or is ending it; None where it did not."""
    if pod.container.ended and (kind := _ENDED.get(pod.container.ended.reason)):
        return Cause(kind=kind, message=_of_container(pod.container.ended))
    if pod.evicted and pod.evicted.reason == EVICTED:
        kind = FailureKind.OUT_OF_MEMORY if _LACKS_MEMORY in pod.evicted.message else FailureKind.HOST_LOST
        return Cause(kind=kind, message=f"its node ended it for lack of something: {pod.evicted.message}")
    if pod.disruption is not None:
        return _of_disruption(pod, pod.disruption, node)
    if pod.container.ended and pod.container.ended.reason in _FORGOTTEN:
        return _of_node_anew(pod)
    return None


def is_lost_for_good(pod: PodFacts, node: NodeFacts | None) -> bool:
    """Whether nobody is there to confirm the end of a pod that is being deleted."""
    return pod.is_deleting and not pod.has_ended and node is not None and node.is_lost


def of_gone_node(pod: PodFacts) -> Cause:
    """The node is no part of the cluster any more, whoever of Kubernetes took its pod away: spot was taken back."""
    if pod.is_spot:
        return Cause(kind=FailureKind.PREEMPTED, message=f"spot node {pod.node} is gone")
    return Cause(kind=FailureKind.HOST_LOST, message=f"node {pod.node} is gone")


def _of_node_anew(pod: PodFacts) -> Cause:
    """A machine of the same name came up without what had run there; no spot machine but a new one does."""
    words = f"node {pod.node} was lost and came back without it"
    if pod.is_spot:
        return Cause(kind=FailureKind.PREEMPTED, message=f"spot {words}")
    return Cause(kind=FailureKind.HOST_LOST, message=words)


def consequences(facts: Facts) -> frozenset[int]:
    """The hosts that were told to leave only because another host of the attempt had ended.

    When one pod of a Job ends badly, the Job controller deletes the others at once; their runners see a notice like
    any other. The controller says which ones it deleted; of pods that nobody saw, the others' ends tell.
    """
    if facts.jobset is not None and facts.jobset.is_suspended:  # all were told alike: by us, or by a queue
        return frozenset()
    cleared = {event.said.message.rpartition(" ")[2] for event in facts.events if event.said.reason == _CLEARED}
    somebody_ended = any(_ended_by_itself(facts, host) for host in range(facts.hosts))
    return frozenset(host for host in range(facts.hosts) if _is_consequence(facts, host, cleared, somebody_ended))


def was_deleted_by_hand(facts: Facts, pod: PodFacts, told: frozenset[int]) -> bool:
    """Whether somebody deleted this pod while its JobSet stood, and no disruption was announced.

    told: the `consequences`, which nobody deleted by hand.
    """
    jobset = facts.jobset
    if jobset is None or jobset.is_suspended or jobset.is_deleting or jobset.is_complete or pod.disruption:
        return False
    return pod.is_deleting and pod.host not in told


def _of_container(said: Said) -> str:
    if said.reason == "OOMKilled":
        return "its container used more memory than its limit and was killed (OOMKilled)"
    return f"its container could not be started ({said})"


def _of_disruption(pod: PodFacts, said: Said, node: NodeFacts | None) -> Cause:
    kind, words = DISRUPTIONS.get(said.reason, (FailureKind.PREEMPTED, "it was disrupted"))
    message = f"{words} ({said})"
    if said.reason not in _NODE_DECIDES:
        return Cause(kind=kind, message=message)
    if node is not None and node.is_serviced:
        return Cause(kind=FailureKind.MAINTENANCE, message=f"node {pod.node} is taken away for maintenance; {message}")
    is_tainted = said.reason == "DeletionByTaintManager"
    if said.reason == "DeletionByPodGC" or (is_tainted and node is not None and node.is_gone):
        cause = of_gone_node(pod)
        return Cause(kind=cause.kind, message=f"{cause.message}; {message}")
    if is_tainted and node is not None and node.is_lost:
        return Cause(kind=FailureKind.HOST_LOST, message=f"node {pod.node} is not heard of any more; {message}")
    if pod.is_spot and said.reason == "TerminationByKubelet":
        return Cause(kind=kind, message=f"spot node {pod.node} was reclaimed; {message}")
    return Cause(kind=kind, message=message)


def _is_consequence(facts: Facts, host: int, cleared: set[str], somebody_ended: bool) -> bool:
    pod = facts.pod(host)
    if pod is None:
        return somebody_ended and not _ended_by_itself(facts, host)
    is_told = pod.is_deleting and pod.disruption is None
    return is_told and (pod.name in cleared or somebody_ended)


def _ended_by_itself(facts: Facts, host: int) -> bool:
    """It ended badly, and neither was its pod deleted nor does its record say that it was told to leave or left alone.

    One that waited for the others in vain was left alone by nobody: they had not come.
    """
    pod, record = facts.pod(host), record_of(facts, host)
    was_left = record is not None and record.lost_peer and record.had_met_others
    if record is not None and (record.stop_reason is not None or was_left):
        return False
    if pod is not None:
        return pod.has_ended and not pod.is_deleting and not pod.is_gone and pod.phase != "Succeeded"
    return record is not None and record.exit_code != 0
