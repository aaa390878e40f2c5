"""How does an attempt in a cluster stand? All facts → one `Observation`."""

from __future__ import annotations

import signal
from dataclasses import replace

from prefect_tpu.infra.backends import jobset_helpers as helpers
from prefect_tpu.infra.backends.jobset_causes import cause_of, consequences, was_deleted_by_hand
from prefect_tpu.infra.backends.jobset_facts import Facts, OutputFacts, PodFacts
from prefect_tpu.infra.backends.jobset_places import place_of
from prefect_tpu.infra.backends.jobset_records import last_words, record_of
from prefect_tpu.infra.backends.jobset_symptoms import Lasting, Symptom, unbearable
from prefect_tpu.infra.backends.jobset_waiting import waiting
from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.state import Cause, HostObservation, HostPhase, Observation

_DEADLINE = "DeadlineExceeded"  # of a Job: its activeDeadlineSeconds
# Why Kueue takes an admitted attempt's quota back. Anything else is a preemption.
_EVICTIONS = {
    "Deactivated": FailureKind.STOPPED,
    "PodsReadyTimeout": FailureKind.UNSCHEDULABLE,
    "AdmissionCheck": FailureKind.NO_CAPACITY,
}
_SIGNALLED = 128  # a container that ends by a signal has this more as its exit code


def view(facts: Facts, lasting: Lasting) -> Observation:
    """The snapshot. `lasting`: for how many seconds each symptom has lasted."""
    wrong = unbearable(facts, lasting)
    shown = {found.host: found for found in wrong if found.host is not None}
    told, loss = consequences(facts), helpers.lost(facts)
    if loss is not None:  # then its JobSet fails, and what deletes the host's pod is nobody's hand
        told |= {helpers.LEADER}
    hosts = tuple(_host(facts, host, told, shown.get(host)) for host in range(facts.hosts))
    hosts = _with_helpers(facts, hosts, loss)
    is_over = all(host.has_ended for host in hosts)
    has_said_all = all(host.record is not None and host.cause is None for host in hosts) and any(
        host.record is not None and host.record.stop_reason is None for host in hosts
    )
    return Observation(
        attempt=facts.attempt,
        hosts=hosts,
        waiting=None if is_over else waiting(facts),
        cause=None if is_over and has_said_all else _of_all(facts, wrong),
    )


def _with_helpers(
    facts: Facts, hosts: tuple[HostObservation, ...], loss: helpers.Loss | None
) -> tuple[HostObservation, ...]:
    """A host that lacks one of its helpers is itself not there."""
    if facts.helpers is None:
        return hosts
    host = hosts[helpers.LEADER]
    if loss is not None and host.cause is None:
        host = replace(host, cause=loss.cause, place=loss.place or host.place, is_consequence=False)
    if host.phase is HostPhase.RUNNING and not helpers.have_begun(facts):
        host = replace(host, phase=HostPhase.PENDING)
    return tuple(host if one.host == host.host else one for one in hosts)


def _of_all(facts: Facts, wrong: tuple[Symptom, ...]) -> Cause | None:
    """Why the attempt as a whole cannot go on."""
    for job in facts.jobs:
        if job.failed is not None and job.failed.reason == _DEADLINE:
            return Cause(kind=FailureKind.DEADLINE, message=f"Job {job.name} ran past its deadline ({job.failed}).")
    for found in wrong:
        if not found.is_end:
            return found.cause
    return _never_began(facts) or _evicted(facts) or _deleted(facts)


def _never_began(facts: Facts) -> Cause | None:
    """Pods that wait are simply gone once their JobSet is told to stop: nothing of theirs was lost."""
    if facts.jobset is None or not facts.jobset.is_told_to_stop or _has_begun(facts):
        return None
    return Cause(kind=FailureKind.STOPPED, message="It was told to end before any of its hosts began.")


def _evicted(facts: Facts) -> Cause | None:
    """Kueue took the quota of an attempt that had begun; one that had not only waits again.

    Its hosts have their grace first, in which they save.
    """
    said = facts.workload.evicted if facts.workload and not _saves(facts) else None
    if said is None or facts.jobset is None or facts.jobset.is_told_to_stop or not _has_begun(facts):
        return None
    kind = _EVICTIONS.get(said.reason, FailureKind.PREEMPTED)
    return Cause(kind=kind, message=f"Kueue took its quota back ({said}).")


def _deleted(facts: Facts) -> Cause | None:
    """Whoever deletes an attempt's JobSet wants it stopped; who deletes one of its pods does not.

    One that was gone before anybody looked says nothing: Kubernetes deletes it too, some time after its end.
    """
    jobset = facts.jobset
    if (jobset is None and not facts.was_there) or _saves(facts):
        return None
    if jobset is not None and (not jobset.is_deleting or jobset.is_told_to_stop):
        return None
    return Cause(kind=FailureKind.STOPPED, message="Its JobSet was deleted from the cluster.")


def _saves(facts: Facts) -> bool:
    """Whether a host still runs that hears of its end; what nobody deletes, or nobody hears of, is a symptom."""
    newest = (facts.pod(host) for host in range(facts.hosts))
    living = [pod for pod in newest if pod is not None and pod.container.is_running and not pod.has_ended]
    return any(not (node := facts.node(pod)) or not node.is_lost for pod in living)


def _has_begun(facts: Facts) -> bool:
    return facts.has_started or any(pod.has_begun for pod in facts.pods)


def _host(facts: Facts, host: int, told: frozenset[int], shown: Symptom | None) -> HostObservation:
    pod, output = facts.pod(host), facts.outputs.get(host, OutputFacts())
    phase = HostPhase.ENDED if shown and shown.is_end else _phase(facts, pod, output)
    record = record_of(facts, host) if phase is HostPhase.ENDED else None
    code, signal_number = _code(pod, record)
    return HostObservation(
        host=host,
        phase=phase,
        exit_code=code,
        signal=signal_number,
        reason=_reason(facts, pod, output) if phase is HostPhase.ENDED and record is None else "",
        cause=shown.cause if shown else _cause(facts, pod, told),
        is_consequence=host in told,
        is_leaving=phase is HostPhase.RUNNING and pod is not None and pod.is_deleting,
        joined=output.progress.joined or bool(record and record.joined_after is not None),
        progress=record.progress if record else output.progress.progress,
        record=record,
        place=(shown.place if shown else "") or (place_of(facts, pod.node) if pod and pod.node else ""),
    )


def _phase(facts: Facts, pod: PodFacts | None, output: OutputFacts) -> HostPhase:
    if pod is not None and pod.has_ended:
        return HostPhase.ENDED
    if pod is not None:
        return HostPhase.RUNNING if pod.container.is_running else HostPhase.PENDING
    is_over = facts.jobset is None or facts.jobset.begins_nothing or any(job.failed for job in facts.jobs)
    was_there = facts.was_there or facts.has_started
    return HostPhase.ENDED if (is_over and was_there) or output.record else HostPhase.PENDING


def _cause(facts: Facts, pod: PodFacts | None, told: frozenset[int]) -> Cause | None:
    if pod is None:
        return None
    if was_deleted_by_hand(facts, pod, told):
        return Cause(kind=FailureKind.PREEMPTED, message=f"somebody deleted its pod {pod.name}")
    return cause_of(pod, facts.node(pod))


def _code(pod: PodFacts | None, record: HostRecord | None) -> tuple[int | None, int | None]:
    """The runner's exit code and signal. A shell's way of saying a signal is one where no record says otherwise."""
    if record is not None:
        return record.exit_code, None
    code = pod.container.exit_code if pod else None
    if pod is not None and pod.container.signal:
        return None, pod.container.signal
    is_signal = code is not None and 0 < code - _SIGNALLED < signal.NSIG
    return (None, code - _SIGNALLED) if code is not None and is_signal else (code, None)


def _reason(facts: Facts, pod: PodFacts | None, output: OutputFacts) -> str:
    if output.damage:
        return output.damage
    if pod is None:
        return "it has no pod any more" if facts.jobset is not None else "its JobSet is gone"
    if pod.container.ended and pod.container.ended.reason not in ("Completed", "Error"):
        return pod.container.ended.reason
    if pod.evicted:
        return str(pod.evicted)
    if (code := pod.container.exit_code) is not None:
        said = last_words(pod)
        return f"exit code {code}: {said}" if said else f"exit code {code}"
    return "its pod is gone" if pod.is_gone else ""
