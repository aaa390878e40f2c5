"""What an attempt waits for is said in plain words, by what the scheduler, the autoscaler and Kueue say."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.backends.jobset_facts import (
    ContainerFacts,
    EventFacts,
    Facts,
    JobFacts,
    JobSetFacts,
    NodeFacts,
    PodFacts,
    Said,
    WorkloadFacts,
)
from prefect_tpu.infra.backends.jobset_waiting import waiting
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.state import WaitFor

OTHER_KIND = "0/8 nodes are available: 8 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate"
TAKEN = (
    "0/8 nodes are available: 4 Insufficient google.com/tpu, 4 node(s) didn't match Pod's node affinity/selector."
    " no new claims to deallocate, preemption: 0/8 nodes are available: 8 No preemption victims found."
)


def pod(host: int, **facts: Any) -> PodFacts:
    return PodFacts(name=f"j-1-s-0-{host}-x", uid=f"u{host}", host=host, slice=0, phase="Pending", **facts)


def running(host: int) -> PodFacts:
    return pod(host, node=f"n{host}", container=ContainerFacts(is_running=True))


def facts(*pods: PodFacts, **more: Any) -> Facts:
    jobset = JobSetFacts(name="j-1", uid="u", **more.pop("jobset", {}))
    jobs = (JobFacts(name="j-1-s-0"),)
    return Facts(attempt=1, slices=1, hosts=2, jobset=jobset, was_there=True, jobs=jobs, pods=pods, **more)


def event(kind: str, name: str, reason: str, message: str = "", at: float = 0.0) -> EventFacts:
    return EventFacts(kind=kind, name=name, said=Said(reason=reason, message=message), at=at)


NODES = {f"n{host}": NodeFacts(name=f"n{host}", pool="a") for host in range(4)}


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (facts(pod(0, unschedulable=OTHER_KIND)), "the cluster has no node of this kind"),
        (
            facts(pod(0, unschedulable=TAKEN), nodes=NODES, taken={"n1": "job 'x' (attempt 1)"}),
            "no slice is free: of the nodes of this kind 4 have too little google.com/tpu left;"
            " node pool a is used by job 'x' (attempt 1)",
        ),
        (
            facts(
                pod(0, unschedulable=OTHER_KIND),
                events=(
                    event("Pod", "j-1-s-0-0-x", "NotTriggerScaleUp", "no", at=1.0),
                    event("Pod", "j-1-s-0-0-x", "FailedScaleUp", "GCE out of resources", at=2.0),
                ),
            ),
            "the cluster has no node of this kind; the autoscaler could not add nodes: GCE out of resources",
        ),
        (facts(running(0)), "1 of 2 hosts have started"),
        (facts(running(0), pod(1, node="n1")), "1 of 2 hosts have started"),
        (
            facts(pod(0, node="n0"), events=(event("Pod", "j-1-s-0-0-x", "Pulling", "Pulling image"),)),
            "host 0 fetches its image",
        ),
        (
            facts(pod(0, node="n0"), events=(event("Pod", "j-1-s-0-0-x", "FailedMount", 'secret "x" not found'),)),
            'host 0 cannot start: FailedMount: secret "x" not found',
        ),
        (
            facts(
                pod(0, node="n0"),
                events=(
                    event("Pod", "j-1-s-0-0-x", "FailedMount", "no driver yet", at=1.0),
                    event("Pod", "j-1-s-0-0-x", "Pulling", "Pulling image", at=1.0),
                ),
            ),
            "host 0 fetches its image",
        ),
        (
            facts(pod(0, node="n0", container=ContainerFacts(waiting=Said(reason="ErrImagePull", message="no such")))),
            "host 0 cannot start: ErrImagePull: no such",
        ),
        (
            facts(events=(event("Job", "j-1-s-0", "FailedCreate", "Error creating: exceeded quota: q"),)),
            "the cluster does not take its pods: Error creating: exceeded quota: q",
        ),
        (
            facts(
                jobset={"is_suspended": True, "queue": "lq"},
                workload=WorkloadFacts(pending="insufficient quota, 16 more needed", position=3),
            ),
            "in Kueue's queue lq, place 3 of it: insufficient quota, 16 more needed",
        ),
        (
            facts(jobset={"is_suspended": True}),
            "its JobSet is suspended, and by no queue: somebody has to resume it",
        ),
    ],
)
def test_what_is_waited_for(seen: Facts, reason: str) -> None:
    found = waiting(seen)
    assert found is not None and found.reason == reason


@pytest.mark.parametrize(
    ("seen", "what"),
    [
        (facts(jobset={"is_suspended": True, "queue": "lq"}), WaitFor.TURN),
        (
            facts(
                jobset={"is_suspended": True, "queue": "lq"},
                workload=WorkloadFacts(pending="couldn't assign flavors: insufficient unused quota for google.com/tpu"),
            ),
            WaitFor.QUOTA,
        ),
        (facts(events=(event("Job", "j-1-s-0", "FailedCreate", "exceeded quota: q"),)), WaitFor.QUOTA),
        (facts(events=(event("Job", "j-1-s-0", "FailedCreate", "denied by a policy"),)), WaitFor.START),
        (facts(pod(0, unschedulable=OTHER_KIND)), WaitFor.SLICE),
        (facts(pod(0, node="n0"), events=(event("Pod", "j-1-s-0-0-x", "Pulling", "Pulling image"),)), WaitFor.IMAGE),
        (
            facts(pod(0, node="n0", container=ContainerFacts(waiting=Said(reason="ErrImagePull", message="no such")))),
            WaitFor.IMAGE,
        ),
        (facts(pod(0, node="n0"), events=(event("Pod", "j-1-s-0-0-x", "FailedMount", "no secret"),)), WaitFor.START),
        (facts(running(0)), WaitFor.START),
    ],
)
def test_what_is_waited_for_in_a_word(seen: Facts, what: WaitFor) -> None:
    found = waiting(seen)
    assert found is not None and found.what is what


@pytest.mark.parametrize(
    ("reason", "message", "is_dry"),
    [
        ("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 in backoff after failed scale-up", True),
        ("FailedScaleUp", "Node scale up in zones us-east5-b failed: GCE out of resources.", True),
        ("FailedScaleUp", "Node scale up failed: Internal error.", False),
        ("TriggeredScaleUp", "pod triggered scale-up", False),
    ],
)
def test_an_attempt_is_dry_by_what_the_autoscaler_said_last_of_a_pod(reason: str, message: str, is_dry: bool) -> None:
    before = event("Pod", "j-1-s-0-0-x", "TriggeredScaleUp" if is_dry else "NotTriggerScaleUp", "no", at=1.0)
    last = event("Pod", "j-1-s-0-0-x", reason, message, at=2.0)
    of_another = event("Pod", "j-2-s-0-0-x", "NotTriggerScaleUp" if not is_dry else "TriggeredScaleUp", "no", at=3.0)
    found = waiting(facts(pod(0, unschedulable=OTHER_KIND), events=(last, before, of_another)))
    assert found is not None and found.is_dry is is_dry


def test_what_is_queued_is_dry_where_its_machines_cannot_be_made() -> None:
    jobset = {"is_suspended": True, "queue": "lq"}
    found = [
        waiting(facts(jobset=jobset, workload=WorkloadFacts(pending=said)))
        for said in ("insufficient quota, 16 more needed", "ResourcePoolExhausted: waiting for resources")
    ]
    assert [one and one.is_dry for one in found] == [False, True]


@pytest.mark.parametrize(
    "said",
    [
        "follower pod node selector for topology domain not found. missing selector: cloud.google.com/gke-nodepool",
        "leader pod not yet scheduled, not creating follower pod. this is an expected, transient error",
    ],
)
def test_followers_that_are_refused_until_their_leader_has_its_node_are_no_reason(said: str) -> None:
    message = f'Error creating: admission webhook "vpod.kb.io" denied the request: {said}'
    refused = event("Job", "j-1-s-0", "FailedCreate", message)
    found = waiting(facts(events=(refused,)))
    assert found is not None and found.reason == "0 of 2 hosts have started"


@pytest.mark.parametrize(
    "seen",
    [
        facts(running(0), running(1)),
        facts(jobset={"failed": Said(reason="FailedJobs")}),
        facts(jobset={"is_told_to_stop": True, "is_suspended": True}),
        Facts(attempt=1, slices=1, hosts=2),
    ],
)
def test_nothing_is_waited_for_once_all_have_begun_or_none_will(seen: Facts) -> None:
    assert waiting(seen) is None


def test_an_image_that_cannot_be_pulled_is_told_once_whether_the_kubelet_tries_or_pauses() -> None:
    answer = 'rpc error: code = NotFound desc = failed to resolve reference "x:1": not found'
    tries = Said(reason="ErrImagePull", message=answer)
    pauses = Said(reason="ImagePullBackOff", message=f'Back-off pulling image "x:1": ErrImagePull: {answer}')
    told = [waiting(facts(pod(0, node="n0", container=ContainerFacts(waiting=said)))) for said in (tries, pauses)]
    assert told[0] == told[1] and told[0] is not None
    assert told[0].reason == 'host 0 cannot start: ErrImagePull: failed to resolve reference "x:1": not found'


NO_IMAGE = ContainerFacts(waiting=Said(reason="ErrImagePull", message="no such"))


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        (facts(pod(0, unschedulable=OTHER_KIND)), FailureKind.NO_CAPACITY),
        (facts(pod(0, node="n0", container=NO_IMAGE)), FailureKind.IMAGE),
        (facts(pod(0, unschedulable=OTHER_KIND), pod(1, node="n1", container=NO_IMAGE)), FailureKind.IMAGE),
        (
            facts(pod(0, node="n0"), events=(event("Pod", "j-1-s-0-0-x", "FailedMount", "no such secret"),)),
            FailureKind.REFUSED,
        ),
        (
            facts(events=(event("Job", "j-1-s-0", "FailedCreate", "Error creating: exceeded quota: q"),)),
            FailureKind.NO_QUOTA,
        ),
        (facts(events=(event("Job", "j-1-s-0", "FailedCreate", "a webhook says no"),)), FailureKind.REFUSED),
    ],
)
def test_what_is_waited_for_is_of_the_kind_that_it_is_once_the_time_is_up(seen: Facts, kind: FailureKind) -> None:
    found = waiting(seen)
    assert found is not None and found.kind is kind
