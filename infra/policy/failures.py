"""Why did this attempt end? Evidence of all hosts → one `Failure`, or None where it succeeded.

A cause is decided from codes, signals and the platform's own conditions. When
one host dies the others see exceptions of their collectives: those are
consequences, and never the cause while a better one is known.
"""

from __future__ import annotations

import signal

from prefect_tpu.infra.contract import ExitCode, HostRecord, KilledBy, ProgramError, StopReason
from prefect_tpu.infra.errors import CouldNotJoin, Failure, FailureKind, HostsDiffer, HostsMissing, StorageAway
from prefect_tpu.infra.policy import stalls
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.state import HostObservation, Observation

# Signals by which a program ends itself through a defect of its own.
_CRASH_SIGNALS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT})


def classify(observation: Observation) -> Failure | None:
    """The attempt's failure; None where every host is done.

    Asked once all hosts have ended, or some time after the first end. Hosts
    that have not ended by then are consequences and are left out.
    """
    if observation.has_ended and not observation.has_failure:
        return None  # whatever the platform says of it afterwards
    ended = _ended(observation)
    evidence = tuple(_describe(host) for host in observation.hosts if host.has_failed)
    if observation.cause is not None and _told_to_leave(ended) is None:
        return failure(observation.cause.kind, observation.cause.message, evidence=evidence)
    if not evidence:
        return None
    for rule in _RULES:
        found = rule(ended)
        if found is not None:
            kind, host, message = found
            return failure(kind, message, host=host, evidence=evidence)
    return failure(FailureKind.UNKNOWN, "The hosts lost each other and none says why.", evidence=evidence)


def is_decided(observation: Observation) -> bool:
    """Whether the cause is known while hosts still live: another one is gone, and nobody was told to leave.

    An error or a lost peer of theirs never outranks that; hosts that had a notice are saving. One that the platform
    lost without a word had none.
    """
    if observation.cause is not None:
        return True
    ended = _ended(observation)
    is_leaving = _told_to_leave(ended) is not None or _platform_took_it(ended) is not None
    has_notice = any(host.record and host.record.stop_reason for host in ended)
    is_lost = any(host.record is None and host.cause and host.cause.kind is FailureKind.HOST_LOST for host in ended)
    return (is_lost and not has_notice) or (not is_leaving and _host_is_gone(ended) is not None)


def _ended(observation: Observation) -> list[HostObservation]:
    """The hosts that have ended by a cause of their own, as far as there are any."""
    ended = [host for host in observation.hosts if host.has_ended]
    return [host for host in ended if not host.is_consequence] or ended


_Cause = tuple[FailureKind, int | None, str] | None


def _told_to_leave(hosts: list[HostObservation]) -> _Cause:
    """Somebody asked: a stop, a deadline, or nobody drives the job any more."""
    reasons = {host.record.stop_reason: host.host for host in hosts if host.record and host.record.stop_reason}
    if StopReason.STOP in reasons:
        return FailureKind.STOPPED, None, "The job was asked to stop."
    if StopReason.DEADLINE in reasons:
        return FailureKind.DEADLINE, None, "The attempt ran past its deadline."
    if StopReason.ORPHANED in reasons:
        return FailureKind.PREEMPTED, None, "Nobody drove the job any more, so its hosts left."
    return None


def _platform_took_it(hosts: list[HostObservation]) -> _Cause:
    for host in hosts:
        if host.cause:
            return host.cause.kind, host.host, f"The platform ended host {host.host}: {host.cause.message}"
        if host.record and host.record.stop_reason == StopReason.NOTICE:
            return FailureKind.PREEMPTED, host.host, f"Host {host.host} was told to leave ({_saved(host.record)})."
    return None


def _kernel_killed_it(hosts: list[HostObservation]) -> _Cause:
    for host in hosts:
        if host.record and host.record.killed_by == KilledBy.MEMORY:
            message = f"The kernel's out-of-memory killer ended the program of host {host.host}."
            return FailureKind.OUT_OF_MEMORY, host.host, message
    return None


def _hosts_differ(hosts: list[HostObservation]) -> _Cause:
    """Any host says which of them differs; the one that does says so of itself."""
    saying = [host for host in hosts if host.record and _raised(host.record, HostsDiffer)]
    if not saying:
        return None
    own = next((host for host in saying if host.record and not host.record.lost_peer), None)
    is_sure = own is not None and any(host.record and host.record.lost_peer for host in saying)
    return FailureKind.PROGRAM_ERROR, own.host if own and is_sure else None, _error_line(own or saying[0])


def _all_stood_still(hosts: list[HostObservation]) -> _Cause:
    """Runners ended their programs because no host made a step; unless one had ended before and so stopped them."""
    stalled = [host.record for host in hosts if host.record and _is_stalled(host)]
    if not stalled:
        return None
    begin = min(record.ended_since_join for record in stalled)
    others = [host.record for host in hosts if host.has_failed and host.record and host.record not in stalled]
    if any(record.ended_since_join < begin and not record.lost_peer for record in others):
        return None
    return FailureKind.STALLED, stalls.stopped_first(stalled), stalls.message(stalled)


def _is_stalled(host: HostObservation) -> bool:
    return host.record is not None and host.record.exit_code == ExitCode.STALLED


def _host_is_gone(hosts: list[HostObservation]) -> _Cause:
    """A host without a record, or whose program was killed from outside."""
    for host in hosts:
        if host.record is None:
            how = _signal_name(host.signal) if host.signal else host.reason or "no trace"
            return FailureKind.HOST_LOST, host.host, f"Host {host.host} is gone without a record ({how})."
        is_killed = host.record.program_signal is not None and not _is_crash(host.record) and not _is_stalled(host)
        if is_killed and not host.record.lost_peer:
            name = _signal_name(host.record.program_signal or 0)
            return FailureKind.HOST_LOST, host.host, f"The program of host {host.host} was killed by {name}."
    return None


_RUNNER_CODES = {
    ExitCode.WRONG_SLICE: FailureKind.WRONG_TOPOLOGY,
    ExitCode.PAYLOAD_REFUSED: FailureKind.REFUSED,
    ExitCode.CANNOT_BEGIN: FailureKind.HOST_LOST,
}


def _runner_says(hosts: list[HostObservation]) -> _Cause:
    for host in hosts:
        kind = _RUNNER_CODES.get(host.record.exit_code) if host.record else None  # type: ignore[call-overload]
        if kind:
            return kind, host.host, _error_line(host)
    return None


def _program_raised(hosts: list[HostObservation]) -> _Cause:
    """Among exceptions of programs the first in time; lost peers are never the cause."""
    raised = [host for host in hosts if host.record and host.has_failed and not host.record.lost_peer]
    raised = [host for host in raised if not _has_left(host) and not _is_stalled(host)]
    if not raised:
        return None
    first = min(raised, key=lambda host: (host.record.ended_since_join, host.host))  # type: ignore[union-attr]
    is_others = first.record is not None and _raised(first.record, HostsMissing)  # it waited for them in vain
    return _kind_of_error(first.record), None if is_others else first.host, _error_line(first)


def _kind_of_error(record: HostRecord | None) -> FailureKind:
    """A bucket that was away is nothing of the program's: the next attempt may find it."""
    if record and record.out_of_memory:
        return FailureKind.OUT_OF_MEMORY
    is_away = record and record.error and record.error.type == StorageAway.__name__
    return FailureKind.UNKNOWN if is_away else FailureKind.PROGRAM_ERROR


def _left_by_itself(hosts: list[HostObservation]) -> _Cause:
    """A program that heard of a preemption before its runner did, or from somebody else: it saved and left."""
    first = next((host for host in hosts if _has_left(host)), None)
    if first is None or first.record is None:
        return None
    return FailureKind.PREEMPTED, first.host, f"The program of host {first.host} left ({_saved(first.record)})."


def _has_left(host: HostObservation) -> bool:
    return host.record is not None and host.record.exit_code == ExitCode.PREEMPTED


def _none_joined(hosts: list[HostObservation]) -> _Cause:
    """The leader knows who was missing, so its word goes before the others'."""
    for host in hosts:
        if host.record and host.record.error and host.record.error.type == CouldNotJoin.__name__:
            return FailureKind.COULD_NOT_JOIN, None, host.record.error.message
    if any(host.joined or (host.record and host.record.had_met_others) for host in hosts):
        return None
    return FailureKind.COULD_NOT_JOIN, None, "The hosts did not find each other in time."


# In the order of their weight: the first that finds a cause is right.
_RULES = (
    _told_to_leave,
    _platform_took_it,
    _kernel_killed_it,
    _hosts_differ,
    _all_stood_still,
    _host_is_gone,
    _runner_says,
    _program_raised,
    _left_by_itself,
    _none_joined,
)


def _raised(record: HostRecord, error: type[Exception]) -> bool:
    return record.error is not None and record.error.type == error.__name__


def _is_crash(record: HostRecord) -> bool:
    return record.program_signal in _CRASH_SIGNALS


def _error_line(host: HostObservation) -> str:
    record = host.record
    if record and record.error:
        return _said(record.error)
    if record and record.program_signal:
        return f"The program died of {_signal_name(record.program_signal)}."
    return f"The program ended with exit code {record.program_code if record else None}."


def _said(error: ProgramError) -> str:
    """As Python says it; many an assertion has no message."""
    return f"{error.type}: {error.message}".strip() if error.message else error.type


def _describe(host: HostObservation) -> str:
    """One line of evidence per host."""
    record = host.record
    if record is None:
        return f"host {host.host}: no record" + (f", {_signal_name(host.signal)}" if host.signal else "")
    parts = [f"host {host.host}: exit {record.exit_code}"]
    if record.program_signal:
        parts.append(_signal_name(record.program_signal))
    if record.stop_reason:
        parts.append(record.stop_reason)
    if record.killed_by:
        parts.append(f"killed by {record.killed_by}")
    if record.error:
        parts.append(_said(record.error).splitlines()[0][:200])
    return ", ".join(parts)


def _saved(record: HostRecord) -> str:
    step = record.progress.saved_step
    return "no checkpoint saved" if step is None else f"step {step} saved"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
