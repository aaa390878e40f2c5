"""What becomes of workers is the host's: pending without them, lost with one that it needs, and what they wait for."""

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
    OutputFacts,
    PodFacts,
    Said,
)
from prefect_tpu.infra.backends.jobset_helpers import apart, have_begun
from prefect_tpu.infra.backends.jobset_roles import Helpers
from prefect_tpu.infra.backends.jobset_symptoms import symptoms
from prefect_tpu.infra.backends.jobset_view import view
from prefect_tpu.infra.contract import ExitCode, HostRecord
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.policy.capacity import lost_places
from prefect_tpu.infra.policy.failures import classify
from prefect_tpu.infra.scratch import HostProgress
from prefect_tpu.infra.state import HostPhase

JOBSET = JobSetFacts(name="j-1", uid="u")
RUNS, WAITS = ContainerFacts(is_running=True), ContainerFacts()
EVICTED = Said(reason="EvictionByEvictionAPI", message="Eviction API: evicting")
TWO_BY_TWO = Helpers(job="worker", slices=2, pods=4)
ELASTIC = Helpers(job="worker", slices=2, pods=4, spare=1)
JOBS = (
    JobFacts(name="j-1-pathways-head-0"),
    *(JobFacts(name=f"j-1-worker-{index}", slice=index, is_helper=True) for index in range(2)),
)
LONG = 1e6


def head(**changes: Any) -> PodFacts:
    values = {"name": "head", "uid": "h", "host": 0, "slice": 0, "phase": "Running", "container": RUNS, "node": "cpu"}
    return PodFacts(**{**values, **changes})


def worker(number: int, **changes: Any) -> PodFacts:
    values = {"name": f"w{number}", "uid": f"w{number}", "host": number, "slice": number // 2, "phase": "Running"}
    placed = {"container": RUNS, "node": f"n{number}", "is_helper": True}
    return PodFacts(**{**values, **placed, **changes})


def ended(code: int, said: str = "") -> dict[str, Any]:
    over = ContainerFacts(has_ended=True, exit_code=code, ended=Said(reason="Error", message=said))
    return {"phase": "Failed", "container": over}


def record(code: ExitCode, **changes: Any) -> OutputFacts:
    return OutputFacts(has_started=True, record=HostRecord(attempt=1, host=0, exit_code=code, **changes))


def known(*pods: PodFacts, helpers: Helpers = TWO_BY_TWO, jobset: JobSetFacts | None = JOBSET, **more: Any) -> Facts:
    nodes = {f"n{number}": NodeFacts(name=f"n{number}", pool=f"pool-{number // 2}") for number in range(4)}
    values = {"jobs": JOBS, "was_there": True, **more}
    facts = Facts(attempt=1, slices=1, hosts=1, jobset=jobset, pods=pods, **values)
    return apart(facts, helpers, {**nodes, **more.get("nodes", {})})


def workers(*changed: PodFacts) -> list[PodFacts]:
    """All four, these in place of those with their numbers."""
    instead = {pod.host: pod for pod in changed}
    return [instead.get(number) or worker(number) for number in range(4)]


# -- Who is what -----------------------------------------------------------------------------------


def test_helpers_are_no_hosts_and_hosts_no_helpers() -> None:
    facts = known(head(), *workers())
    assert (facts.hosts, [pod.name for pod in facts.pods]) == (1, ["head"])
    assert facts.helpers is not None and facts.helpers.hosts_per_slice == 2
    assert [pod.name for pod in facts.helpers.pods] == ["w0", "w1", "w2", "w3"]
    assert [job.name for job in facts.jobs] == ["j-1-pathways-head-0"] and len(facts.helpers.jobs) == 2


def test_facts_without_helpers_stay_as_they_are() -> None:
    facts = Facts(attempt=1, slices=1, hosts=1, pods=(head(),))
    assert apart(facts, None, {}) is facts and have_begun(facts)


# -- The host is there once its workers are --------------------------------------------------------


def test_a_host_whose_workers_have_not_begun_is_pending_and_waits_for_them() -> None:
    seen = view(known(head(), *workers(worker(3, container=WAITS, node="", unschedulable="0/4 nodes: 4 x"))), {})
    assert seen.hosts[0].phase is HostPhase.PENDING
    assert seen.waiting is not None and seen.waiting.reason.startswith("worker 3: ")
    before = view(known(head()), {})
    assert before.waiting is not None and before.waiting.reason == "0 of 4 workers have started"


def test_before_the_head_runs_it_is_the_head_that_is_waited_for() -> None:
    seen = view(known(head(container=WAITS, node="", unschedulable="0/1 nodes are available: 1 Insufficient cpu.")), {})
    assert seen.waiting is not None and "too little cpu" in seen.waiting.reason


def test_a_worker_without_its_image_is_what_is_waited_for_whether_the_head_runs_or_not() -> None:
    pulls = ContainerFacts(waiting=Said(reason="ErrImagePull", message="not found"))
    for container in (RUNS, WAITS):
        seen = view(known(head(container=container), *workers(worker(2, container=pulls))), {})
        assert seen.waiting is not None and seen.waiting.kind is FailureKind.IMAGE
        assert seen.waiting.reason == "worker 2 cannot start: ErrImagePull: not found"


def test_with_all_of_them_it_runs() -> None:
    seen = view(known(head(), *workers()), {})
    assert seen.hosts[0].phase is HostPhase.RUNNING and seen.waiting is None and seen.cause is None


def test_an_elastic_job_begins_with_as_many_slices_as_it_needs() -> None:
    waits = worker(3, container=WAITS)
    assert have_begun(known(head(), *workers(waits), helpers=ELASTIC))
    assert not have_begun(known(head(), *workers(waits, worker(1, container=WAITS)), helpers=ELASTIC))


def test_one_that_has_met_them_has_them_whoever_looks_later() -> None:
    met = OutputFacts(has_started=True, progress=HostProgress(joined=True))
    assert view(known(head(), outputs={0: met}), {}).hosts[0].phase is HostPhase.RUNNING


# -- What is done to a worker is done to the host --------------------------------------------------


def failure_of(facts: Facts, seconds: float = 0.0) -> tuple[FailureKind, str, bool, tuple[str, ...]]:
    """seconds: for which every symptom has lasted."""
    seen = view(facts, {found.key: seconds for found in symptoms(facts)})
    found = classify(seen)
    assert found is not None
    return found.kind, found.message, found.retryable, lost_places(seen)


def test_a_worker_that_is_evicted_ends_the_host_and_its_pool_is_the_place_that_was_lost() -> None:
    gone = worker(2, disruption=EVICTED, deleted_at=1.0, **ended(143))
    told = record(ExitCode.PREEMPTED, stop_reason="notice")
    kind, message, retryable, places = failure_of(known(head(**ended(81)), *workers(gone), outputs={0: told}))
    assert (kind, retryable, places) == (FailureKind.PREEMPTED, True, ("pool-1",))
    assert "worker 2 (pod w2): it was evicted" in message


@pytest.mark.parametrize("words", [{"lost_peer": True}, {"lost_peer": False}])
def test_what_the_platform_says_outweighs_what_the_program_saw_of_it(words: dict[str, bool]) -> None:
    gone = worker(2, disruption=EVICTED, **ended(143))
    code = ExitCode.LOST_PEER if words["lost_peer"] else ExitCode.PROGRAM_RAISED
    facts = known(head(**ended(code)), *workers(gone), outputs={0: record(code, **words)})
    assert failure_of(facts)[0] is FailureKind.PREEMPTED


def test_a_worker_that_ends_by_itself_is_told_with_its_last_words() -> None:
    crashed = worker(1, **ended(1, "no such flag: --x\n"))
    lost = record(ExitCode.LOST_PEER, lost_peer=True)
    kind, message, retryable, _ = failure_of(known(head(**ended(83)), *workers(crashed), outputs={0: lost}))
    assert (kind, retryable) == (FailureKind.HOST_LOST, True)
    assert "worker 1 (pod w1) ended: exit code 1: no such flag: --x" in message


def test_a_head_that_is_cleared_away_because_a_worker_crashed_was_deleted_by_nobody() -> None:
    told = record(ExitCode.PREEMPTED, stop_reason="notice")
    cleared = head(deleted_at=1.0, **ended(81))
    kind, message, _, _ = failure_of(known(cleared, *workers(worker(1, **ended(127))), outputs={0: told}))
    assert kind is FailureKind.HOST_LOST and "worker 1 (pod w1) ended: exit code 127" in message
    kind, message, _, _ = failure_of(known(cleared, *workers(), outputs={0: told}))
    assert kind is FailureKind.PREEMPTED and "somebody deleted its pod head" in message


def test_workers_that_end_because_the_program_has_are_no_reason() -> None:
    facts = known(head(**ended(80)), *workers(worker(1, **ended(1))), outputs={0: record(ExitCode.PROGRAM_RAISED)})
    assert failure_of(facts)[0] is FailureKind.PROGRAM_ERROR
    done = known(head(phase="Succeeded"), *workers(worker(1, **ended(1))), outputs={0: record(ExitCode.DONE)})
    assert classify(view(done, {})) is None


def test_who_deletes_a_worker_by_hand_is_told_from_a_jobset_that_clears_up() -> None:
    deleted = worker(3, deleted_at=1.0, is_gone=True)
    told = {0: record(ExitCode.PREEMPTED, stop_reason="notice")}
    kind, message, _, _ = failure_of(known(head(**ended(81)), *workers(deleted), outputs=told))
    assert kind is FailureKind.PREEMPTED and "somebody deleted worker 3" in message
    jobs = tuple(job if job.slice == 0 else JobFacts(**{**fields_of(job), "is_deleting": True}) for job in JOBS)
    _, message, _, _ = failure_of(known(head(**ended(81)), *workers(deleted), outputs=told, jobs=jobs))
    assert "somebody" not in message


def fields_of(job: JobFacts) -> dict[str, Any]:
    return {"name": job.name, "slice": job.slice, "is_helper": job.is_helper}


def test_a_worker_on_a_node_that_is_gone_ends_the_attempt_though_nobody_says_so() -> None:
    lost = {"n1": NodeFacts(name="n1", pool="pool-0").lost()}
    facts = known(head(), *workers(), nodes=lost)
    seen = view(facts, {found.key: LONG for found in symptoms(facts)})
    assert seen.cause is not None and seen.cause.message == "worker 1: node n1 is gone"
    assert lost_places(seen) == ("pool-0",)
    assert not seen.hosts[0].has_ended  # it runs, and misses somebody


# -- Elastic jobs bear it --------------------------------------------------------------------------


def test_an_elastic_job_loses_workers_and_goes_on() -> None:
    gone = worker(2, disruption=EVICTED, deleted_at=1.0, is_gone=True, created_at=1.0)
    back = worker(2, name="w2b", uid="w2b", created_at=2.0, container=WAITS)
    met = OutputFacts(has_started=True, progress=HostProgress(joined=True))
    lost = {"n1": NodeFacts(name="n1", pool="pool-0").lost()}
    facts = known(head(), *workers(gone), back, helpers=ELASTIC, outputs={0: met}, nodes=lost)
    seen = view(facts, {found.key: LONG for found in symptoms(facts)})
    assert seen.hosts[0].phase is HostPhase.RUNNING
    assert (seen.cause, seen.hosts[0].cause, seen.waiting) == (None, None, None)


def test_an_elastic_job_whose_workers_are_replaced_too_often_ends() -> None:
    failed = JobFacts(name="j-1-worker-1", slice=1, is_helper=True, failed=Said(reason="BackoffLimitExceeded"))
    told = {0: record(ExitCode.PREEMPTED, stop_reason="notice")}
    facts = known(head(**ended(81)), *workers(), helpers=ELASTIC, jobs=(*JOBS[:2], failed), outputs=told)
    kind, message, retryable, _ = failure_of(facts)
    assert (kind, retryable) == (FailureKind.HOST_LOST, True)
    assert "slice 1 were lost more often than they are replaced (BackoffLimitExceeded)" in message


# -- What keeps the pods from running --------------------------------------------------------------


def test_an_image_of_pathways_that_cannot_be_fetched_ends_the_attempt() -> None:
    pulls = ContainerFacts(waiting=Said(reason="ImagePullBackOff", message="not found"))
    assert failure_of(known(head(container=pulls)), LONG)[:2] == (
        FailureKind.IMAGE,
        "Host 0's image cannot be fetched (ImagePullBackOff: not found).",
    )
    kind, message, _, _ = failure_of(known(head(), *workers(worker(2, container=pulls))), LONG)
    assert kind is FailureKind.IMAGE and message.startswith("Worker 2's image cannot be fetched")


@pytest.mark.parametrize(("joined", "kind"), [(False, FailureKind.REFUSED), (True, FailureKind.HOST_LOST)])
def test_a_container_beside_the_program_that_does_not_stay_up_ends_the_attempt(joined: bool, kind: FailureKind) -> None:
    unsteady = head(unsteady=Said(reason="pathways-proxy", message="no such flag"))
    output = OutputFacts(has_started=True, progress=HostProgress(joined=joined))
    found = failure_of(known(unsteady, *workers(), outputs={0: output}))
    assert found[:2] == (kind, "Host 0's container pathways-proxy does not stay up: no such flag")


def test_workers_that_no_quota_allows_are_told_of() -> None:
    said = Said(reason="FailedCreate", message="pods is forbidden: exceeded quota: q")
    event = EventFacts(kind="Job", name="j-1-worker-0", said=said)
    assert failure_of(known(head(), events=(event,)), LONG)[0] is FailureKind.NO_QUOTA
