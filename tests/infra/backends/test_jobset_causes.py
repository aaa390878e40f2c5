"""Why the platform ended a host: by its reason, and by its node where one reason stands for several things."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.backends.jobset_causes import (
    DISRUPTIONS,
    cause_of,
    consequences,
    is_lost_for_good,
    was_deleted_by_hand,
)
from prefect_tpu.infra.backends.jobset_facts import (
    ContainerFacts,
    EventFacts,
    Facts,
    JobSetFacts,
    NodeFacts,
    OutputFacts,
    PodFacts,
    Said,
)
from prefect_tpu.infra.contract import ExitCode, HostRecord, ProgramError, StopReason
from prefect_tpu.infra.errors import FailureKind

K = FailureKind
NODE, LOST = NodeFacts(name="n", pool="a"), NodeFacts(name="n", pool="a", is_lost=True)
GONE = LOST.lost()
SERVICED = NodeFacts(name="n", pool="a", is_serviced=True)


def pod(host: int = 0, **more: Any) -> PodFacts:
    return PodFacts(name=f"p{host}", uid=f"u{host}", host=host, slice=0, node="n", **{"phase": "Running", **more})


def over(reason: str, code: int = 1) -> ContainerFacts:
    return ContainerFacts(has_ended=True, exit_code=code, ended=Said(reason=reason))


# -- One host --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "node", "is_spot", "kind"),
    [
        ("DeletionByTaintManager", NODE, False, K.PREEMPTED),
        ("DeletionByTaintManager", LOST, False, K.HOST_LOST),
        ("DeletionByTaintManager", LOST, True, K.HOST_LOST),  # it may be heard of again
        ("DeletionByTaintManager", GONE, False, K.HOST_LOST),
        ("DeletionByTaintManager", GONE, True, K.PREEMPTED),  # whoever of Kubernetes was the first to see it
        ("DeletionByTaintManager", SERVICED, False, K.MAINTENANCE),
        ("EvictionByEvictionAPI", NODE, False, K.PREEMPTED),
        ("EvictionByEvictionAPI", SERVICED, False, K.MAINTENANCE),
        ("PreemptionByScheduler", NODE, False, K.PREEMPTED),
        ("PreemptionByScheduler", SERVICED, False, K.PREEMPTED),  # a pod took its place, whatever else happens there
        ("TerminationByKubelet", NODE, False, K.PREEMPTED),
        ("TerminationByKubelet", NODE, True, K.PREEMPTED),
        ("TerminationByKubelet", SERVICED, True, K.MAINTENANCE),
        ("DeletionByPodGC", LOST, False, K.HOST_LOST),
        ("DeletionByPodGC", LOST, True, K.PREEMPTED),
        ("DeletionByPodGC", GONE, True, K.PREEMPTED),
        ("DeletionByPodGC", None, False, K.HOST_LOST),
        ("SomethingNew", NODE, False, K.PREEMPTED),
    ],
)
def test_a_disruption_is_what_its_reason_and_its_node_say(
    reason: str, node: NodeFacts | None, is_spot: bool, kind: FailureKind
) -> None:
    found = cause_of(pod(disruption=Said(reason=reason, message="so it was"), is_spot=is_spot), node)
    assert found is not None and found.kind is kind
    assert f"({reason}: so it was)" in found.message


def test_every_reason_that_has_words_is_told_in_them() -> None:
    for reason, (kind, words) in DISRUPTIONS.items():
        found = cause_of(pod(disruption=Said(reason=reason)), None)
        assert found is not None and found.kind is kind and (words in found.message)


@pytest.mark.parametrize(
    ("container", "evicted", "kind"),
    [
        (over("OOMKilled", 137), None, K.OUT_OF_MEMORY),
        (over("StartError", 128), None, K.IMAGE),
        (over("ContainerCannotRun", 128), None, K.IMAGE),
        (
            ContainerFacts(),
            Said(reason="Evicted", message="The node was low on resource: memory. …"),
            K.OUT_OF_MEMORY,
        ),
        (
            ContainerFacts(),
            Said(reason="Evicted", message="The node was low on resource: ephemeral-storage. …"),
            K.HOST_LOST,
        ),
    ],
)
def test_what_a_kubelet_ended(container: ContainerFacts, evicted: Said | None, kind: FailureKind) -> None:
    found = cause_of(pod(container=container, evicted=evicted), NODE)
    assert found is not None and found.kind is kind


@pytest.mark.parametrize("container", [over("Unknown", 255), over("ContainerStatusUnknown", 137)])
@pytest.mark.parametrize(("is_spot", "kind"), [(False, K.HOST_LOST), (True, K.PREEMPTED)])
def test_a_host_whose_machine_came_back_without_it_was_lost_with_the_machine(
    container: ContainerFacts, is_spot: bool, kind: FailureKind
) -> None:
    found = cause_of(pod(container=container, is_spot=is_spot), NODE)
    assert found is not None and found.kind is kind and "node n was lost and came back" in found.message


def test_a_disruption_tells_more_than_a_machine_that_came_back() -> None:
    said = Said(reason="DeletionByTaintManager")
    found = cause_of(pod(container=over("Unknown", 255), disruption=said), SERVICED)
    assert found is not None and found.kind is K.MAINTENANCE


@pytest.mark.parametrize("container", [over("Error"), over("Completed", 0), ContainerFacts(is_running=True)])
def test_a_program_s_own_end_is_none_of_the_platform_s(container: ContainerFacts) -> None:
    assert cause_of(pod(container=container), NODE) is None


@pytest.mark.parametrize(
    ("of", "node", "is_lost"),
    [
        (pod(deleted_at=1.0), LOST, True),
        (pod(deleted_at=1.0), NODE, False),
        (pod(deleted_at=1.0), None, False),  # nodes cannot be seen
        (pod(), LOST, False),
        (pod(deleted_at=1.0, container=over("Error")), LOST, False),
    ],
)
def test_nobody_confirms_the_end_of_a_pod_that_is_deleted_on_a_lost_node(of: Any, node: Any, is_lost: bool) -> None:
    assert is_lost_for_good(of, node) is is_lost


# -- What follows from another host's end -----------------------------------------------------------

FAILED, TOLD, RUNS = pod(0, container=over("Error"), phase="Failed"), pod(1, deleted_at=1.0), pod(1)
TAKEN = pod(1, deleted_at=1.0, disruption=Said(reason="DeletionByTaintManager"))


def known(*pods: PodFacts, **more: Any) -> Facts:
    jobset = JobSetFacts(name="j-1", uid="u", **more.pop("jobset", {}))
    return Facts(attempt=1, slices=1, hosts=2, jobset=jobset, was_there=True, pods=pods, **more)


def ended(host: int, **record: Any) -> dict[int, OutputFacts]:
    return {host: OutputFacts(has_started=True, record=HostRecord(attempt=1, host=host, **record))}


LEFT = ended(0, exit_code=ExitCode.PREEMPTED, stop_reason=StopReason.NOTICE)
LOST_PEER = ended(0, exit_code=ExitCode.LOST_PEER, lost_peer=True, joined_after=1.0)
GONE = ProgramError(type="RegionLost", message="Host 1 is gone.", traceback="")
LOST_IN_REGION = ended(0, exit_code=ExitCode.LOST_PEER, lost_peer=True, error=GONE)
ALONE = ended(0, exit_code=ExitCode.LOST_PEER, lost_peer=True)
CLEARED = EventFacts(kind="Job", name="j", said=Said(reason="SuccessfulDelete", message="Deleted pod: p1"))


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (known(FAILED, TOLD), {1}),
        (known(FAILED, RUNS), set()),
        (known(FAILED, TAKEN), set()),  # the platform took this one too
        (known(FAILED), {1}),  # of a pod that nobody saw the other's end tells
        (known(pod(0), TOLD), set()),
        (known(pod(0), TOLD, events=(CLEARED,)), {1}),  # the Job controller says so before the failed one shows
        (known(FAILED, TOLD, outputs=LEFT), set()),
        (known(FAILED, TOLD, outputs=LOST_PEER), set()),
        (known(FAILED, TOLD, outputs=LOST_IN_REGION), set()),
        (known(FAILED, TOLD, outputs=ALONE), {1}),  # before it had met the others
        (known(FAILED, TOLD, jobset={"is_suspended": True}), set()),  # all were told alike
    ],
)
def test_hosts_that_were_told_to_leave_because_another_one_ended(seen: Facts, told: set[int]) -> None:
    assert consequences(seen) == told


@pytest.mark.parametrize(
    ("seen", "of", "is_by_hand"),
    [
        (known(pod(0), TOLD), TOLD, True),
        (known(FAILED, TOLD), TOLD, False),
        (known(pod(0), TAKEN), TAKEN, False),
        (known(pod(0), RUNS), RUNS, False),
        (known(pod(0), TOLD, jobset={"is_suspended": True}), TOLD, False),
        (known(pod(0), TOLD, jobset={"is_deleting": True}), TOLD, False),
        (known(pod(0), TOLD, jobset={"is_complete": True}), TOLD, False),
        (Facts(attempt=1, slices=1, hosts=2, pods=(TOLD,)), TOLD, False),
    ],
)
def test_a_pod_that_somebody_deleted(seen: Facts, of: PodFacts, is_by_hand: bool) -> None:
    assert was_deleted_by_hand(seen, of, consequences(seen)) is is_by_hand
