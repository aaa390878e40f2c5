"""Where a job stands, which moves there are, and what a backend says of its hosts.

The table of moves is total: every pair of state and event is either in it or
an `ImpossibleMove`, which is loud.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from prefect_tpu.infra.contract import HostRecord, Progress
from prefect_tpu.infra.errors import FailureKind


class JobState(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"  # waits for a slice
    STARTING = "starting"  # sent to the hosts, not all of them have met
    RUNNING = "running"  # all hosts have met
    STOPPING = "stopping"  # the hosts were told to save and leave
    BACKING_OFF = "backing_off"  # waits before the next attempt
    SUCCEEDED = "succeeded"  # it has its value
    FAILED = "failed"  # it ended without; running it again goes on from its checkpoint
    STOPPED = "stopped"  # somebody asked for it; running it again goes on from its checkpoint

    @property
    def is_final(self) -> bool:
        return self in FINAL


FINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED})


class JobEvent(StrEnum):
    SUBMITTED = "submitted"
    JOINED = "joined"
    STOP_ASKED = "stop_asked"
    RETRY_DUE = "retry_due"  # an attempt ended and another one will follow
    SLICE_WANTED = "slice_wanted"  # the next attempt looks for a slice
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    CONTINUED = "continued"  # somebody ran a job again that had ended


class ImpossibleMove(Exception):
    """An event that cannot happen in this state: a defect of ours."""


_S, _E = JobState, JobEvent
_ENDS = {_E.SUCCEEDED: _S.SUCCEEDED, _E.FAILED: _S.FAILED, _E.STOPPED: _S.STOPPED}
_MOVES: dict[JobState, dict[JobEvent, JobState]] = {
    _S.QUEUED: {
        _E.SUBMITTED: _S.STARTING,
        _E.STOP_ASKED: _S.STOPPING,
        _E.SLICE_WANTED: _S.QUEUED,
        **_ENDS,
    },
    _S.STARTING: {
        _E.SUBMITTED: _S.STARTING,
        _E.JOINED: _S.RUNNING,
        _E.STOP_ASKED: _S.STOPPING,
        _E.RETRY_DUE: _S.BACKING_OFF,
        **_ENDS,
    },
    _S.RUNNING: {
        _E.JOINED: _S.RUNNING,
        _E.STOP_ASKED: _S.STOPPING,
        _E.RETRY_DUE: _S.BACKING_OFF,
        **_ENDS,
    },
    _S.STOPPING: {
        _E.SUBMITTED: _S.STOPPING,
        _E.JOINED: _S.STOPPING,
        _E.STOP_ASKED: _S.STOPPING,
        _E.RETRY_DUE: _S.BACKING_OFF,
        **_ENDS,
    },
    _S.BACKING_OFF: {
        _E.SUBMITTED: _S.STARTING,
        _E.SLICE_WANTED: _S.QUEUED,
        _E.RETRY_DUE: _S.BACKING_OFF,
        _E.STOP_ASKED: _S.STOPPING,
        _E.FAILED: _S.FAILED,
        _E.STOPPED: _S.STOPPED,
    },
    _S.SUCCEEDED: {},
    _S.FAILED: {_E.CONTINUED: _S.QUEUED},
    _S.STOPPED: {_E.CONTINUED: _S.QUEUED},
}


def move(state: JobState, event: JobEvent) -> JobState:
    """The state after an event. Raises `ImpossibleMove` for a pair that the table does not have."""
    try:
        return _MOVES[state][event]
    except KeyError:
        raise ImpossibleMove(f"{event} cannot happen to a job that is {state}") from None


class HostPhase(StrEnum):
    """How far a host is."""

    PENDING = "pending"  # sent, its runner has not started
    RUNNING = "running"  # its runner has started
    ENDED = "ended"  # its runner has left


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why the platform ended a host or keeps an attempt from going on: a kind, and its own words."""

    kind: FailureKind
    message: str


class WaitFor(StrEnum):
    """What keeps hosts from starting, in a word."""

    TURN = "turn"  # others have the slice, or stand before it in a queue
    QUOTA = "quota"  # as much as is allowed is in use
    SLICE = "slice"  # machines that are made, or that nobody has now
    IMAGE = "image"  # what a host's container runs is fetched
    START = "start"  # machines are there, and hosts begin on them


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """No slice yet: what the job waits for, in a person's words.

    what: the same in a word.
    is_dry: the platform has none of it now, as in a stockout, so another offer may have its turn meanwhile.
    kind: of the failure that it is where it has not come by the end of the time for it.
    """

    reason: str
    is_dry: bool = False
    kind: FailureKind = FailureKind.NO_CAPACITY
    what: WaitFor = WaitFor.SLICE


@dataclass(frozen=True, slots=True, kw_only=True)
class HostObservation:
    """What a backend says of one host now.

    exit_code, signal: how the host's runner ended, where that is known.
    reason: the platform's own word for it.
    cause: the platform ended the host; None where it did not.
    is_consequence: the platform told it to leave only because another host had ended.
    is_leaving: the platform told it to leave, and it has its grace.
    record: the runner's own account; None where it left none.
    place: the machine that it is on, in the platform's name; empty where there is none.
    """

    host: int
    phase: HostPhase
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    cause: Cause | None = None
    is_consequence: bool = False
    is_leaving: bool = False
    joined: bool = False
    progress: Progress = field(default_factory=Progress)
    record: HostRecord | None = None
    place: str = ""

    @property
    def has_ended(self) -> bool:
        return self.phase is HostPhase.ENDED

    @property
    def has_failed(self) -> bool:
        return self.has_ended and (self.record is None or self.record.exit_code != 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A complete snapshot of one attempt: every host of it.

    waiting: its slice is not there yet, though it was sent.
    cause: the attempt as a whole cannot go on, whatever its hosts do; None where it can.
    """

    attempt: int
    hosts: tuple[HostObservation, ...]
    waiting: Waiting | None = None
    cause: Cause | None = None

    @property
    def has_ended(self) -> bool:
        return all(host.has_ended for host in self.hosts)

    @property
    def has_failure(self) -> bool:
        return any(host.has_failed for host in self.hosts)

    @property
    def has_joined(self) -> bool:
        return all(host.joined for host in self.hosts)

    @property
    def leader(self) -> HostObservation:
        return self.hosts[0]

    @property
    def progress(self) -> Progress:
        """Of the whole attempt: the first and the furthest step of any host, the leader's metrics."""
        reports = [host.progress for host in self.hosts]
        return Progress(
            step=max((p.step for p in reports if p.step is not None), default=None),
            first_step=min((p.first_step for p in reports if p.first_step is not None), default=None),
            saved_step=max((p.saved_step for p in reports if p.saved_step is not None), default=None),
            metrics=self.leader.progress.metrics,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One way to get a slice: of what, in which cluster and zone, where the job has a choice of them."""

    accelerator: str
    cluster: str | None = None
    zone: str | None = None
