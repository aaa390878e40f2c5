"""What does an attempt that was sent wait for? For people: its queue, the autoscaler, the scheduler, an image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from prefect_tpu.infra.backends import jobset_places as places
from prefect_tpu.infra.backends import jobset_scaling as scaling
from prefect_tpu.infra.backends.jobset_facts import Facts, JobSetFacts, PodFacts, Said
from prefect_tpu.infra.backends.jobset_helpers import have_begun
from prefect_tpu.infra.backends.jobset_symptoms import QUOTA, UNPULLED, refusal, unmounted
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.state import WaitFor, Waiting

_OTHER_KIND = "didn't match Pod's node affinity/selector"
# The scheduler's words, which have no reasons of their own, and ours.
_WORDS = {
    "didn't match pod anti-affinity rules": "are held by another slice",
    "had untolerated taint(s)": "are closed by a taint",
    "were unschedulable": "are closed to new pods",
    "didn't satisfy existing pods anti-affinity rules": "are held by another slice",
    "didn't match pod affinity rules": "are outside its slice",
}
# A kubelet says the same in two states in turn, every few seconds: that it tried, and that it pauses.
_PAUSE = re.compile(r'Back-off pulling image "[^"]*": (\w+): (.*)', re.DOTALL)
_LACKS_QUOTA = re.compile("insufficient .*quota")  # words of Kueue, which has the reason Pending for all of them
_PART = re.compile(r"(\d+) (?:node\(s\) )?(.+)")
_INSUFFICIENT = re.compile(r"Insufficient (\S+)")


def waiting(facts: Facts) -> Waiting | None:
    """Why not every host has begun; None once all have, or where nothing was sent or it has ended."""
    jobset = facts.jobset
    if jobset is None or jobset.begins_nothing:
        return None
    missing = [facts] if _begun(facts) < facts.hosts else []
    if facts.helpers is not None and not have_begun(facts):
        missing.append(facts.helpers)
    return next(_all_reasons(missing, jobset), None)


def _all_reasons(missing: Sequence[Facts], jobset: JobSetFacts) -> Iterator[Waiting]:
    """The weightiest first. What has no image begins nowhere, whatever the others still wait for."""
    if missing and jobset.is_suspended:
        yield _queued(missing[0], jobset)
    for facts in missing:
        yield from _unpulled(facts)
    for facts in missing:
        yield from _reasons(facts)
    for facts in missing:
        yield Waiting(reason=f"{_begun(facts)} of {facts.hosts} {facts.noun}s have started", what=WaitFor.START)


def _begun(facts: Facts) -> int:
    """How many have, also those that are over by now."""
    pods = (facts.pod(host) for host in range(facts.hosts))
    return sum(1 for pod in pods if pod is not None and (pod.has_begun or pod.has_ended))


def _unpulled(facts: Facts) -> Iterator[Waiting]:
    for host in range(facts.hosts):
        pod = facts.pod(host)
        said = pod.container.waiting if pod is not None and not pod.has_begun else None
        if said is not None and said.reason in UNPULLED:
            reason = f"{facts.called(host)} cannot start: {_pulled_in_vain(said)}"
            yield Waiting(reason=reason, kind=FailureKind.IMAGE, what=WaitFor.IMAGE)


def _reasons(facts: Facts) -> Iterator[Waiting]:
    """What the scheduler says of a slice's leader is said with what makes nodes for it."""
    for job in facts.jobs:
        if said := refusal(facts, job.name):
            is_quota = QUOTA in said
            yield Waiting(
                reason=f"the cluster does not take its pods: {said}",
                kind=FailureKind.NO_QUOTA if is_quota else FailureKind.REFUSED,
                what=WaitFor.QUOTA if is_quota else WaitFor.START,
            )
    for index in range(facts.slices):
        leader = facts.leader(index)
        if leader is not None and leader.unschedulable and not leader.node:
            yield _unscheduled(facts, leader)
        if (lacking := places.lacking(facts, index)) is not None:
            yield Waiting(
                reason=f"node pool {lacking.pool} has {lacking.there} of the {facts.hosts_per_slice} hosts of a slice;"
                " its repair is awaited"
            )
    for host in range(facts.hosts):
        pod = facts.pod(host)
        if pod is not None and not pod.has_begun and pod.node and (starts := _starting(facts, pod)):
            yield starts
        if pod is not None and not pod.node and pod.unschedulable:
            found = _unscheduled(facts, pod)
            yield replace(found, reason=f"{facts.called(host)}: {found.reason}")


def _queued(facts: Facts, jobset: JobSetFacts) -> Waiting:
    """By Kueue's own words: how much is missing stands in them."""
    if jobset.queue is None:
        reason = "its JobSet is suspended, and by no queue: somebody has to resume it"
        return Waiting(reason=reason, what=WaitFor.TURN)
    workload = facts.workload
    place = f", place {workload.position} of it" if workload and (workload.position or 1) > 1 else ""
    pending = workload.pending if workload else ""
    said = f": {pending}" if pending else ""
    what = WaitFor.QUOTA if _LACKS_QUOTA.search(pending) else WaitFor.TURN
    reason = f"in Kueue's queue {jobset.queue}{place}{said}"
    return Waiting(reason=reason, is_dry=scaling.is_request_dry(pending), what=what)


def _unscheduled(facts: Facts, pod: PodFacts) -> Waiting:
    why = scheduler_says(facts, pod.unschedulable)
    said = scaling.newest(facts.events_of("Pod", pod.name))
    if said is None:
        return Waiting(reason=why)
    return Waiting(reason=f"{why}; {scaling.SCALING[said.reason]}: {said.message}", is_dry=scaling.is_dry(said))


def scheduler_says(facts: Facts, message: str) -> str:
    """`0/8 nodes are available: 3 Insufficient google.com/tpu, …` in plain words, with who holds what."""
    _, _, rest = message.partition(": ")
    parts = [match.groups() for part in rest.split(". ")[0].rstrip(".").split(", ") if (match := _PART.fullmatch(part))]
    own = [f"{count} {_in_words(text)}" for count, text in parts if text != _OTHER_KIND]
    if not parts:
        return f"no node is free: {message}"
    if not own:
        return "the cluster has no node of this kind"
    held = "".join(f"; node pool {pool} is used by {who}" for pool, who in places.holders(facts).items())
    return f"no slice is free: of the nodes of this kind {', '.join(own)}{held}"


def _in_words(text: str) -> str:
    if match := _INSUFFICIENT.fullmatch(text):
        return f"have too little {match[1]} left"
    return _WORDS.get(text, text)


def _starting(facts: Facts, pod: PodFacts) -> Waiting | None:
    """Between its node and its container; None where that takes its usual moment."""
    said = pod.container.waiting
    said = said if said is not None and said.message else unmounted(facts, pod)
    if said is not None:
        reason = f"{facts.called(pod.host)} cannot start: {said}"
        return Waiting(reason=reason, kind=FailureKind.REFUSED, what=WaitFor.START)
    pulls = [event for event in facts.events_of("Pod", pod.name) if event.said.reason in ("Pulling", "Pulled")]
    newest = max(pulls, key=lambda event: event.at, default=None)
    if newest is not None and newest.said.reason == "Pulling":
        return Waiting(reason=f"{facts.called(pod.host)} fetches its image", what=WaitFor.IMAGE)
    return None


def _pulled_in_vain(said: Said) -> Said:
    """The registry's answer alone, alike whether the kubelet tries or pauses."""
    paused = _PAUSE.fullmatch(said.message)
    reason, message = paused.groups() if paused else (said.reason, said.message)
    return Said(reason=reason, message=message.rpartition("desc = ")[2])
