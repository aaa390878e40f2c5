"""A second pod for a host that had begun ends the attempt: the others wait for one that is not there any more."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.backends.jobset_facts import ContainerFacts, Facts, JobFacts, JobSetFacts, PodFacts
from prefect_tpu.infra.backends.jobset_symptoms import symptoms
from prefect_tpu.infra.errors import FailureKind

RUNNING = ContainerFacts(is_running=True)


def pod(host: int, at: float = 0.0, **more: Any) -> PodFacts:
    name = f"j-1-s-0-{host}-{at:.0f}"
    return PodFacts(name=name, uid=name, host=host, slice=0, phase="Running", created_at=at, **more)


def known(*pods: PodFacts) -> Facts:
    jobset, job = JobSetFacts(name="j-1", uid="u"), JobFacts(name="j-1-s-0")
    return Facts(attempt=1, slices=1, hosts=2, jobset=jobset, was_there=True, jobs=(job,), pods=pods)


def test_a_pod_that_was_replaced_while_the_others_run_is_the_end_of_the_attempt() -> None:
    first = pod(1, at=1.0, container=RUNNING, is_gone=True)
    found = next(iter(symptoms(known(pod(0, container=RUNNING), first, pod(1, at=2.0)))))
    assert (found.cause.kind, found.bearable, found.is_end) == (FailureKind.HOST_LOST, 0.0, False)
    assert found.cause.message == "The pod of host 1 was replaced by j-1-s-0-1-2 while the attempt ran."


@pytest.mark.parametrize(
    "pods",
    [
        (pod(0, container=RUNNING), pod(1, container=RUNNING)),
        (pod(0), pod(1, at=1.0, is_gone=True), pod(1, at=2.0)),  # the first never began, as while a leader is placed
    ],
)
def test_nothing_is_wrong_while_no_host_that_began_was_replaced(pods: tuple[PodFacts, ...]) -> None:
    assert symptoms(known(*pods)) == ()
