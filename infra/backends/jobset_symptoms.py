"""What is wrong with this attempt that Kubernetes alone never ends? What may pass by itself gets its time first.

Each symptom says for how long it is borne. Whoever watches measures, by one clock, how long each has lasted without
a pause; `jobset_view` makes the first that lasted too long the attempt's cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from prefect_tpu.infra.backends import jobset_places as places
from prefect_tpu.infra.backends.jobset_causes import is_lost_for_good, of_gone_node
from prefect_tpu.infra.backends.jobset_facts import Facts, NodeFacts, PodFacts, Said
from prefect_tpu.infra.backends.jobset_records import is_own_end
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.state import Cause

PULL_SECONDS = 60.0  # a registry that fails for a moment is asked again within it
MOUNT_SECONDS = 90.0  # the driver of a volume comes to a node that has just been made within it
CONFIGURE_SECONDS = 20.0  # a secret or a config map may be made just after the job
CREATE_SECONDS = 20.0  # an admission webhook may be away for a moment
QUOTA_SECONDS = 60.0  # what ended jobs hold of a quota is given back within it
DEGRADED_SECONDS = 2.0  # a follower that has a node in its pool gets it within one round of the scheduler
ORPHANED_SECONDS = 10.0  # Kubernetes deletes what a deleted object had made soon after it
ALONE_SECONDS = 3.0  # the Job controller deletes the others of a slice as soon as one has failed
UNHEARD_SECONDS = 60.0  # a kubelet that restarts is heard again within it
UNCONFIRMED_SECONDS = 2.0  # of a pod that is being deleted on a node that is not heard of
GONE_SECONDS = 1.0  # Kubernetes itself gives the pods of a node that is gone a minute or more

# Followers are refused until their leader has its node; the Job controller says so for each healthy exclusive JobSet.
# It has no reason of its own: "follower pod node selector … not found", "leader pod not yet scheduled, not creating
# follower pod".
FOLLOWERS_WAIT = "follower pod"
QUOTA = "exceeded quota"  # the API server has no reason of its own for it
_NEVER_PULLED = {"InvalidImageName": 0.0, "ErrImageNeverPull": 0.0}
_PULL = {"ErrImagePull": PULL_SECONDS, "ImagePullBackOff": PULL_SECONDS, "RegistryUnavailable": PULL_SECONDS}
UNPULLED = {**_NEVER_PULLED, **_PULL}  # seconds for which a pod whose image is not fetched for this reason is borne
_CONFIGURE = ("CreateContainerConfigError", "CreateContainerError")
_MOUNT = "FailedMount"  # an event of a pod whose volume cannot be laid down
_MOUNTED = frozenset({"Pulling", "Pulled", "Created", "Started"})  # of one whose volumes are there: they come first


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """Something wrong.

    about: the host, place or thing that it is about.
    bearable: for how many seconds it may last.
    host: on which it shows.
    is_end: whether it is that host's end, though nobody confirms it; else it is about the whole attempt.
    place: where that host was to be.
    """

    about: str
    cause: Cause
    bearable: float = 0.0
    host: int | None = None
    is_end: bool = False
    place: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What makes it the same symptom later, though its words change."""
        return self.cause.kind.value, self.about


Lasting = Mapping[tuple[str, str], float]


def symptoms(facts: Facts) -> tuple[Symptom, ...]:
    """All that are there, the weightiest first."""
    return (
        *_replaced(facts),
        *(found for host in range(facts.hosts) if (pod := facts.pod(host)) for found in _of_pod(facts, pod)),
        *_left_behind(facts),
        *_orphaned(facts),
        *_uncreated(facts),
        *_degraded(facts),
        *_of_helpers(facts),
    )


def unbearable(facts: Facts, lasting: Lasting) -> tuple[Symptom, ...]:
    """Those that have lasted for longer than they are borne."""
    return tuple(found for found in symptoms(facts) if lasting.get(found.key, 0.0) >= found.bearable)


def _of_pod(facts: Facts, pod: PodFacts) -> Iterator[Symptom]:
    if pod.has_ended:
        return
    node, name = facts.node(pod), facts.called(pod.host).capitalize()
    if not facts.spare and (silent := _silent(facts, pod, node)) is not None:
        yield silent
    if pod.unsteady is not None:
        yield _unsteady(facts, pod, pod.unsteady)
    if (waiting := pod.container.waiting) is None:
        return
    patience = UNPULLED.get(waiting.reason)
    if patience is not None:
        cause = Cause(kind=FailureKind.IMAGE, message=f"{name}'s image cannot be fetched ({waiting}).")
        yield Symptom(about="image", cause=cause, bearable=patience)
    if waiting.reason in _CONFIGURE:
        cause = Cause(kind=FailureKind.REFUSED, message=f"{name}'s container cannot be made ({waiting}).")
        yield Symptom(about="container", cause=cause, bearable=CONFIGURE_SECONDS)
    if (said := unmounted(facts, pod)) is not None:
        message = f"{name}'s volumes cannot be laid down ({said})."
        yield Symptom(about="volume", cause=Cause(kind=FailureKind.REFUSED, message=message), bearable=MOUNT_SECONDS)


def _unsteady(facts: Facts, pod: PodFacts, said: Said) -> Symptom:
    """What never ran was not right; what ran once may again, in the next attempt."""
    output = facts.outputs.get(pod.host)
    kind = FailureKind.HOST_LOST if output and output.progress.joined else FailureKind.REFUSED
    message = f"{facts.called(pod.host).capitalize()}'s container {said.reason} does not stay up: {said.message}"
    return Symptom(about=f"container {said.reason}", cause=Cause(kind=kind, message=message))


def unmounted(facts: Facts, pod: PodFacts) -> Said | None:
    """Why a volume of this pod is not laid down; None once all are, for an event outlives what it tells of."""
    events = facts.events_of("Pod", pod.name)
    if any(event.said.reason in _MOUNTED for event in events):
        return None
    failed = [event for event in events if event.said.reason == _MOUNT]
    return max(failed, key=lambda event: event.at).said if failed else None


def _silent(facts: Facts, pod: PodFacts, node: NodeFacts | None) -> Symptom | None:
    """Nobody confirms its end, or nobody has heard of its node for long and it reports no step either."""
    if node is None or not node.is_lost or not pod.node:
        return None
    output = facts.outputs.get(pod.host)
    step = output.progress.progress.step if output else None
    about = f"{facts.called(pod.host)} after step {step}"
    if node.is_gone:
        cause = of_gone_node(pod)
        return Symptom(about=f"{about}, gone", cause=cause, bearable=GONE_SECONDS, host=pod.host, is_end=True)
    cause = Cause(kind=FailureKind.HOST_LOST, message=f"node {pod.node} is not heard of any more")
    patience = UNCONFIRMED_SECONDS if is_lost_for_good(pod, node) else UNHEARD_SECONDS
    return Symptom(about=about, cause=cause, bearable=patience, host=pod.host, is_end=True)


def _replaced(facts: Facts) -> Iterator[Symptom]:
    """A second pod for a host that had begun: the others run on and wait for one that is not there any more."""
    for host in range(0 if facts.spare else facts.hosts):
        pods = facts.pods_of(host)
        if len(pods) > 1 and any(pod.has_begun for pod in pods[:-1]):
            name = facts.called(host)
            message = f"The pod of {name} was replaced by {pods[-1].name} while the attempt ran."
            yield Symptom(about=name, cause=Cause(kind=FailureKind.HOST_LOST, message=message))


def _left_behind(facts: Facts) -> Iterator[Symptom]:
    """A host has failed and its Job goes on, as one that may replace pods does: the others wait for it for ever."""
    jobset, hosts = facts.jobset, range(facts.hosts)
    if jobset is None or jobset.has_ended or jobset.is_suspended or facts.spare:
        return
    if not any(_is_at_work(facts, host) for host in hosts):
        return
    going_on = {job.slice: job.name for job in facts.jobs if job.failed is None}
    for host in hosts:
        pod, job = facts.pod(host), going_on.get(host // facts.hosts_per_slice)
        has_failed = pod is not None and pod.has_ended and pod.phase != "Succeeded" and pod.container.exit_code != 0
        if has_failed and job is not None:
            name = facts.called(host)
            message = f"{name.capitalize()} has ended, and Job {job} goes on without it."
            cause = Cause(kind=FailureKind.HOST_LOST, message=message)
            yield Symptom(about=f"the others of {name}", cause=cause, bearable=ALONE_SECONDS)


def _orphaned(facts: Facts) -> Iterator[Symptom]:
    """The JobSet is gone and its pods stay, as after a deletion that spares what it made."""
    if facts.jobset is None and any(_is_at_work(facts, host) for host in range(facts.hosts)):
        cause = Cause(kind=FailureKind.STOPPED, message="Its JobSet was deleted from the cluster, and its pods stay.")
        yield Symptom(about="orphans", cause=cause, bearable=ORPHANED_SECONDS)


def _is_at_work(facts: Facts, host: int) -> bool:
    pod = facts.pod(host)
    return pod is not None and pod.container.is_running and not pod.has_ended and not pod.is_deleting


def _uncreated(facts: Facts) -> Iterator[Symptom]:
    """The Job controller may not make a slice's first pod; it tries again for ever."""
    for job in facts.jobs:
        if facts.leader(job.slice) is not None:
            continue
        said = refusal(facts, job.name)
        if said and QUOTA in said:
            cause = Cause(
                kind=FailureKind.NO_QUOTA, message=f"A quota of the namespace does not allow its pods: {said}"
            )
            yield Symptom(about=job.name, cause=cause, bearable=QUOTA_SECONDS)
        elif said:
            cause = Cause(kind=FailureKind.REFUSED, message=f"The cluster does not take its pods: {said}")
            yield Symptom(about=job.name, cause=cause, bearable=CREATE_SECONDS)


def refusal(facts: Facts, job: str) -> str:
    """Why no pod of this Job can be made, by its newest event; empty where nothing is wrong."""
    events = [event for event in facts.events_of("Job", job) if event.said.reason == "FailedCreate"]
    events = [event for event in events if FOLLOWERS_WAIT not in event.said.message]
    return max(events, key=lambda event: event.at).said.message if events else ""


def _degraded(facts: Facts) -> Iterator[Symptom]:
    """The leader sits in a pool that lacks a host, where its followers wait for ever, while another slice is free."""
    for index in range(facts.slices):
        lacking = places.lacking(facts, index)
        if lacking is not None and (free := places.free_pools(facts)):
            message = (
                f"Node pool {lacking.pool} has {lacking.there} of the {facts.hosts_per_slice} hosts of a slice, and"
                f" {free[0]} is free."
            )
            cause = Cause(kind=FailureKind.UNSCHEDULABLE, message=message)
            yield Symptom(
                about=lacking.pool, cause=cause, bearable=DEGRADED_SECONDS, host=lacking.host, place=lacking.pool
            )


def _of_helpers(facts: Facts) -> Iterator[Symptom]:
    """Of the pods that work for hosts; where one is nobody's end but its own, it is about the whole attempt."""
    working = facts.helpers
    if working is None or is_own_end(facts, 0):
        return
    for found in symptoms(working):
        host = working.pod(found.host) if found.is_end and found.host is not None else None
        said = f"{working.called(host.host)}: {found.cause.message}" if host else found.cause.message
        place = found.place or (places.place_of(working, host.node) if host else "")
        yield replace(
            found,
            about=f"{working.noun}s: {found.about}",
            cause=replace(found.cause, message=said),
            host=None if found.host is None else 0,
            is_end=False,
            place=place,
        )
