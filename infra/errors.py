"""What can go wrong, as one small tree.

    PrefectTpuError
    ├── UsageError      you can fix it: the call, a name, a file, a size
    │   ├── Conflict    the name is taken by a job that was asked for differently
    │   └── NoSuchJob   no job has that name
    ├── PlatformError   the platform refused: not there, forbidden, unreachable, full
    │   ├── RefusedForGood   and it would refuse the same again
    │   └── StorageAway      on a host: the bucket it saves to is away; the next attempt may find it
    ├── JobFailed       the job ran and failed; carries the `Failure`
    ├── SweepFailed     a sweep was stopped, or none of its trials has a value
    ├── RegionFailed    in a flow on a slice: a region failed by its own doing
    ├── WrongSlice      on a host: the slice is not what the plan promised
    ├── CouldNotJoin    on a host: the hosts did not find each other in time
    ├── HostsDiffer     on a host: they run different programs, or the same one with different values
    └── HostsMissing    on a host: some did not come to a barrier in time
    Preempted           on a host: saved, now leaving; a BaseException, so that no program swallows it

What kind of failure a job had is data (`Failure`), not a class per cause.
Every message says what happened, to which object, and what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FailureKind(StrEnum):
    """Why an attempt ended without its result."""

    PREEMPTED = "preempted"  # a host was told to leave by the platform, or nobody drove the job any more
    MAINTENANCE = "maintenance"  # the platform took a host away to service it
    HOST_LOST = "host_lost"  # a host or its program was killed from outside without notice, or could not begin
    NO_CAPACITY = "no_capacity"  # none of the accelerators is to be had
    NO_QUOTA = "no_quota"  # the accelerator is beyond what this project or machine may use
    UNSCHEDULABLE = "unschedulable"  # the cluster has no place for such hosts
    IMAGE = "image"  # the container's image cannot be fetched or started
    COULD_NOT_JOIN = "could_not_join"  # the hosts did not meet within `join_timeout`
    WRONG_TOPOLOGY = "wrong_topology"  # the slice has other devices than its accelerator's
    PROGRAM_ERROR = "program_error"  # the program raised, or ended with a code other than 0
    OUT_OF_MEMORY = "out_of_memory"  # a host's or a chip's memory was used up
    STALLED = "stalled"  # no host made a step for `stall_timeout`
    DEADLINE = "deadline"  # the attempt ran for longer than the job's deadline
    STOPPED = "stopped"  # somebody asked for it
    REFUSED = "refused"  # a host does not run what it was sent
    UNKNOWN = "unknown"  # the hosts lost each other and none says why


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an attempt ended: a kind, the host it began on, whether to try again, and what to do.

    kind: for scripts.
    retryable: whether another attempt may help.
    message: what happened, for people.
    advice: what to do.
    host: where it began; None where it was no host's doing.
    evidence: a line for each host that ended badly.
    """

    kind: FailureKind
    retryable: bool
    message: str
    advice: str
    host: int | None = None
    evidence: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = "" if self.host is None else f" on host {self.host}"
        return f"{self.kind}{where}: {self.message}"

    def to_json(self) -> dict[str, object]:
        return {
            "kind": self.kind.value,
            "host": self.host,
            "retryable": self.retryable,
            "message": self.message,
            "advice": self.advice,
            "evidence": list(self.evidence),
        }

    @classmethod
    def from_json(cls, data: dict[str, object]) -> Failure:
        return cls(
            kind=FailureKind(str(data["kind"])),
            host=data["host"] if isinstance(data["host"], int) else None,
            retryable=bool(data["retryable"]),
            message=str(data["message"]),
            advice=str(data["advice"]),
            evidence=tuple(str(line) for line in _lines(data["evidence"])),
        )


def _lines(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


class PrefectTpuError(Exception):
    """Everything this package raises on purpose."""


class UsageError(PrefectTpuError):
    """The call cannot be carried out as it stands; the message says what to change."""


class Conflict(UsageError):
    """The job's name is taken by a job that was asked for differently."""


class NoSuchJob(UsageError):
    """No job has the name that was asked for."""


class PlatformError(PrefectTpuError):
    """Storage, the machine or the cluster refused or cannot be reached."""


class RefusedForGood(PlatformError):
    """Asking again changes nothing: a right is missing, there is no such bucket, a file of ours is damaged."""


class StorageAway(PlatformError):
    """On a host: a bucket was away for longer than its clients try. The job goes on from what it holds."""


class JobFailed(PrefectTpuError):
    """The job ended without its result; `failure` says why and what to do."""

    def __init__(self, job: str, failure: Failure, traceback: str | None = None) -> None:
        self.job = job
        self.failure = failure
        self.traceback = traceback
        super().__init__(f"Job {job!r} {_what_happened(failure)} {failure.advice}".strip())
        if traceback:
            self.add_note(f"The host's traceback:\n{traceback}")

    def __reduce__(self) -> tuple[type[JobFailed], tuple[str, Failure, str | None]]:
        """Prefect keeps the exception of a failed run as a pickle; by default only the message would come back."""
        return JobFailed, (self.job, self.failure, self.traceback)


def _what_happened(failure: Failure) -> str:
    what = f"was stopped: {failure.message}" if failure.kind is FailureKind.STOPPED else f"failed: {failure}"
    return what if what.endswith((".", "!", "?")) else f"{what}."


class SweepFailed(PrefectTpuError):
    """A sweep has no best trial: it was stopped before its end, or no trial has a value to choose by."""


class RegionFailed(PrefectTpuError):
    """In a flow on a slice: what `every_host` ran failed by its own doing, on the host that the message names.

    Where the exception itself came back, that is raised, from this one.
    """


class WrongSlice(PrefectTpuError):
    """A host found other devices or processes than its plan promised."""


class CouldNotJoin(PrefectTpuError):
    """The hosts of the attempt did not find each other within the plan's `join_timeout`."""


class HostsDiffer(PrefectTpuError):
    """The hosts do not do the same: other code, other steps or other values. The message names who differs in what."""


class HostsMissing(PrefectTpuError):
    """Some hosts did not come to a barrier in time; `hosts` says which."""

    def __init__(self, barrier: str, timeout: float, hosts: tuple[int, ...], where: str = "") -> None:
        self.barrier, self.timeout, self.hosts, self.where = barrier, timeout, hosts, where
        one = len(hosts) == 1
        super().__init__(
            f"Barrier {barrier!r} was not reached by host{'' if one else 's'} {', '.join(map(str, hosts))} within"
            f" {timeout:g} s.{where} Look at the log of {'this host' if one else 'these hosts'}, or give the barrier a"
            " longer timeout."
        )

    def __reduce__(self) -> tuple[type[HostsMissing], tuple[str, float, tuple[int, ...], str]]:
        return HostsMissing, (self.barrier, self.timeout, self.hosts, self.where)


class Preempted(BaseException):
    """Every host has saved its checkpoint at the same step and leaves; let it pass."""

    def __init__(self, step: int | None) -> None:
        self.step = step
        super().__init__("preempted before a step was saved" if step is None else f"preempted; step {step} is saved")
