"""Hosts that nobody confirms the end of, and hosts that a Job goes on without: how soon each ends an attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prefect_tpu.infra.backends.jobset_facts import (
    ContainerFacts,
    Facts,
    JobFacts,
    JobSetFacts,
    NodeFacts,
    PodFacts,
    Said,
)
from prefect_tpu.infra.backends.jobset_reading import read_node
from prefect_tpu.infra.backends.jobset_symptoms import GONE_SECONDS, UNCONFIRMED_SECONDS, UNHEARD_SECONDS, symptoms
from prefect_tpu.infra.errors import FailureKind

RUNNING = ContainerFacts(is_running=True)
KILLED = ContainerFacts(has_ended=True, exit_code=143)


def pod(host: int, container: ContainerFacts = RUNNING, phase: str = "Running") -> PodFacts:
    name = f"digits-1-s-0-{host}"
    return PodFacts(name=name, uid=name, host=host, slice=0, phase=phase, node=f"node-{host}", container=container)


def facts(*pods: PodFacts, node: NodeFacts | None = None, job: JobFacts | None = None) -> Facts:
    nodes = {f"node-{host}": NodeFacts(name=f"node-{host}", pool="a") for host in range(2)}
    return Facts(
        attempt=1,
        slices=1,
        hosts=2,
        jobset=JobSetFacts(name="digits-1", uid="u"),
        jobs=(job or JobFacts(name="digits-1-s-0"),),
        pods=pods,
        nodes={**nodes, **({node.name: node} if node else {})},
    )


SILENT = NodeFacts(name="node-1", pool="a", is_lost=True, is_open=False)


@pytest.mark.parametrize(
    ("node", "deleted_at", "bearable"),
    [
        (SILENT, None, UNHEARD_SECONDS),
        (SILENT, 7.0, UNCONFIRMED_SECONDS),
        (SILENT.lost(), None, GONE_SECONDS),
        (SILENT.lost(), 7.0, GONE_SECONDS),
    ],
)
def test_a_host_whose_node_is_lost(node: NodeFacts, deleted_at: float | None, bearable: float) -> None:
    (found,) = symptoms(facts(pod(0), replace(pod(1), deleted_at=deleted_at), node=node))
    assert (found.bearable, found.host, found.is_end) == (bearable, 1, True)
    assert found.cause.kind is FailureKind.HOST_LOST


def test_a_spot_node_that_is_gone_was_taken_back() -> None:
    (found,) = symptoms(facts(pod(0), replace(pod(1), is_spot=True), node=SILENT.lost()))
    assert (found.cause.kind, found.cause.message) == (FailureKind.PREEMPTED, "spot node node-1 is gone")


def test_a_host_that_ended_while_its_job_goes_on_ends_the_attempt() -> None:
    (found,) = symptoms(facts(pod(0), pod(1, KILLED, "Failed")))
    assert found.cause.message == "Host 1 has ended, and Job digits-1-s-0 goes on without it."


@pytest.mark.parametrize(
    "seen",
    [
        facts(
            pod(0),
            pod(1, KILLED, "Failed"),
            job=JobFacts(name="digits-1-s-0", failed=Said(reason="BackoffLimitExceeded")),
        ),
        facts(pod(0), pod(1, replace(KILLED, exit_code=0), "Succeeded")),
        facts(replace(pod(0), deleted_at=7.0), pod(1, KILLED, "Failed")),
        facts(pod(0, KILLED, "Failed"), pod(1, KILLED, "Failed")),
    ],
    ids=["its Job fails too", "it has succeeded", "the other is told to leave", "both have ended"],
)
def test_what_follows_of_itself_is_no_symptom(seen: Facts) -> None:
    assert symptoms(seen) == ()


@pytest.mark.parametrize(
    ("ready", "is_lost", "is_open"), [("True", False, True), ("False", False, False), ("Unknown", True, False)]
)
def test_a_node_that_is_not_ready_still_says_how_its_pods_end(ready: str, is_lost: bool, is_open: bool) -> None:
    found = read_node({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    assert (found.is_lost, found.is_open) == (is_lost, is_open)
