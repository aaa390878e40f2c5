"""What do the pods that work for hosts mean for these? With Pathways, the one host is its head and all its workers.

Whoever reads an attempt knows hosts alone. So what the platform does to a helper is done to the host that it works
for: a host whose helpers have not begun is pending, and one that lost a helper it needs is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from prefect_tpu.infra.backends.jobset_causes import cause_of, consequences, was_deleted_by_hand
from prefect_tpu.infra.backends.jobset_facts import Facts, NodeFacts, PodFacts
from prefect_tpu.infra.backends.jobset_places import place_of
from prefect_tpu.infra.backends.jobset_records import is_own_end, last_words
from prefect_tpu.infra.backends.jobset_roles import Helpers
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.state import Cause

WORKER = "worker"  # what people call a helper
LEADER = 0  # the host that helpers work for


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A helper that is gone, or going.

    place: where it was.
    doubt: 0 where the platform says so itself, 1 where it follows from what is there, 2 where it ended by itself.
    """

    cause: Cause
    place: str = ""
    doubt: int = 1


def apart(facts: Facts, helpers: Helpers | None, nodes: Mapping[str, NodeFacts]) -> Facts:
    """The facts of all pods, as those of hosts with those of helpers in them. `nodes`: that helpers may be on."""
    if helpers is None:
        return facts
    working = replace(
        facts,
        slices=helpers.slices,
        hosts=helpers.pods,
        jobs=tuple(job for job in facts.jobs if job.is_helper),
        pods=tuple(pod for pod in facts.pods if pod.is_helper),
        nodes=nodes,
        outputs={},
        noun=WORKER,
        spare=helpers.spare,
    )
    jobs = tuple(job for job in facts.jobs if not job.is_helper)
    return replace(facts, jobs=jobs, pods=tuple(pod for pod in facts.pods if not pod.is_helper), helpers=working)


def lost(facts: Facts) -> Loss | None:
    """The helper whose end is the host's; None where all that it needs are there.

    One that ended by itself may have missed another one; and where the host has ended of its own accord, helpers end
    because it has, but for what the platform itself says.
    """
    working = facts.helpers
    if working is None:
        return None
    found = _given_up(working) if working.spare else _ended(working)
    certain = [one for one in found if one.doubt == 0 or not is_own_end(facts, LEADER)]
    return min(certain, key=lambda one: one.doubt, default=None)


def have_begun(facts: Facts) -> bool:
    """Whether as many helpers as are needed have begun, now or at some time; the host's program has met them then."""
    working, output = facts.helpers, facts.outputs.get(LEADER)
    if working is None or (output is not None and output.progress.joined):
        return True
    begun = [all(_has_begun(working, host) for host in _of_slice(working, index)) for index in range(working.slices)]
    return sum(begun) >= max(1, working.slices - working.spare)


def _of_slice(working: Facts, index: int) -> range:
    return range(index * working.hosts_per_slice, (index + 1) * working.hosts_per_slice)


def _has_begun(working: Facts, host: int) -> bool:
    return any(pod.has_begun or pod.has_ended for pod in working.pods_of(host))


def _given_up(working: Facts) -> Iterator[Loss]:
    """Of helpers that are replaced as often as the job allows."""
    for job in working.jobs:
        if job.failed is not None:
            message = f"the workers of slice {job.slice} were lost more often than they are replaced ({job.failed})"
            yield Loss(cause=Cause(kind=FailureKind.HOST_LOST, message=message))


def _ended(working: Facts) -> Iterator[Loss]:
    told = consequences(working)
    intact = {job.slice for job in working.jobs if not job.is_deleting}
    for pod in (pod for host in range(working.hosts) if (pod := working.pod(host))):
        place = place_of(working, pod.node) if pod.node else ""
        name = f"{working.called(pod.host)} (pod {pod.name})"
        if (cause := cause_of(pod, working.node(pod))) is not None:
            yield Loss(cause=Cause(kind=cause.kind, message=f"{name}: {cause.message}"), place=place, doubt=0)
        elif pod.slice in intact and was_deleted_by_hand(working, pod, told):
            yield Loss(cause=Cause(kind=FailureKind.PREEMPTED, message=f"somebody deleted {name}"), place=place)
        elif _ended_by_itself(pod):
            cause = Cause(kind=FailureKind.HOST_LOST, message=f"{name} ended: {_how(pod)}")
            yield Loss(cause=cause, place=place, doubt=2)


def _ended_by_itself(pod: PodFacts) -> bool:
    return pod.container.has_ended and not pod.is_deleting and pod.phase != "Succeeded"


def _how(pod: PodFacts) -> str:
    said = last_words(pod)
    return f"exit code {pod.container.exit_code}{f': {said}' if said else ''}"
