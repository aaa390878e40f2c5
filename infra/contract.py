"""What the launcher and a host agree on: names, exit codes and records.

Both sides import this file and nothing else of each other; it needs the standard library only. Records carry
`VERSION`: newer launchers read older records, older ones refuse newer ones and say what to upgrade.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from enum import IntEnum, StrEnum
from typing import Any

from prefect_tpu.infra.errors import RefusedForGood, UsageError

VERSION = 1
STACKS_SIGNAL = signal.SIGUSR1
RECORD_LIMIT_BYTES = 4096  # Kubernetes cuts a pod's termination message here; the record must fit it whole.
LONGEST_WHERE = 200  # characters of a place in the code, where a record has no room for more


class ExitCode(IntEnum):
    """How a host runner ends. The program's own code or signal stands in the record."""

    DONE = 0  # the program returned, or its command ended with 0
    PROGRAM_RAISED = 80  # an exception, an exit code other than 0, or a signal
    PREEMPTED = 81  # it was told to leave, or heard so itself, and left
    WRONG_SLICE = 82  # other devices or processes than the plan promised
    LOST_PEER = 83  # it ended because another host had
    PAYLOAD_REFUSED = 84  # what was sent cannot be used: changed, forbidden, or for another Python
    STOPPED = 85  # the job was asked to stop
    STALLED = 86  # no host made a step for `stall_timeout`
    CANNOT_BEGIN = 87  # its storage or its disk refused before its program started, which may pass


class Env:
    """Environment variables: a host's own, beside those of its frameworks, and the settings of a machine."""

    PLAN = "PREFECT_TPU_PLAN"  # path of the plan; its presence means: inside a job
    HOST = "PREFECT_TPU_HOST"  # this host's number, 0 is the leader
    SCRATCH = "PREFECT_TPU_SCRATCH"  # this host's own folder for progress, events and its outcome
    RUNNER = "PREFECT_TPU_RUNNER_PID"  # the runner's process, this program's parent
    REGION = "PREFECT_TPU_REGION"  # of a flow's job: the folder of the region that this process is; there alone
    PARENT = "PREFECT_TPU_PARENT_PID"  # this program's parent, where that is not the runner
    STARTED = "PREFECT_TPU_STARTED"  # the runner's start on this machine's monotonic clock, in seconds
    ATTEMPT = "PREFECT_TPU_ATTEMPT"  # "<output>/<job>/<n>": marks its processes; others' plans are refused
    SLICE = "PREFECT_TPU_SLICE"  # of a pod: which slice; its number there is Kubernetes' JOB_COMPLETION_INDEX
    TERMINATION_LOG = "PREFECT_TPU_TERMINATION_LOG"  # where a pod leaves its record, if not at /dev/termination-log
    REGION_KEY = "PREFECT_TPU_REGION_KEY"  # of a flow's job: by which the leader and the other hosts know each other
    OUTPUT = "PREFECT_TPU_OUTPUT"  # folder of all jobs where none is named
    SLICES = "PREFECT_TPU_LOCAL_SLICES"  # how many slices this machine lends at once
    PROFILE = "PREFECT_TPU_PROFILE"  # which steps to record, as `skip=10,steps=5`, where its job does not say
    MAX_HOSTS = "PREFECT_TPU_LOCAL_MAX_HOSTS"  # how many hosts a slice of this machine may have
    COMPILER_PYTHON = "PREFECT_TPU_COMPILER_PYTHON"  # an interpreter whose environment has jax[tpu], for `compile`


class Scratch:
    """Files in a host's scratch folder, by which the program tells its runner how it goes."""

    PROGRESS = "progress.json"  # the newest `Progress`, replaced atomically
    EVENTS = "events.jsonl"  # appended: {"after": seconds since the runner started, "event": name, …}
    OUTCOME = "outcome.json"  # how the program ended, by its own account
    VALUE = "value"  # what the program returned, encoded
    EXCEPTION = "exception"  # what a sent function raised, pickled
    DATA = "data"  # staged data by its hash, where the output is in a bucket, which a program cannot open as files
    REGION = "region.json"  # of a flow's job: which region runs here now; gone when it has ended
    REGIONS = "regions"  # of a flow's job: a folder for each region, with its plan, its code and what came of it
    STACKS = "stacks-{pid}.txt"  # made by a process that writes its stacks there when it gets `STACKS_SIGNAL`


class Payload:
    """Files of a payload that carries a pickled function, beside its code."""

    FUNCTION = "function.pkl"
    ARGUMENTS = "arguments.pkl"  # (args, kwargs); only where the function was called with some
    VERSIONS = "versions.json"  # which Python and cloudpickle wrote it


class Event(StrEnum):
    """Names of events in a ledger."""

    SUBMITTED = "submitted"  # by the launcher: the plan went to the hosts
    JOINED = "joined"  # this host has met the others
    COMPILED = "compiled"  # the program's step was called first: the `seconds` in which it was traced and compiled
    RESTORED = "restored"  # a checkpoint was read: its `step` and `attempt`
    STEP = "step"  # `step` is done, with its metrics
    SAVED = "saved"  # the checkpoint of `step` is sealed
    DRILL = "drill"  # a rehearsed failure strikes this host now: the drill as `drill`
    PROFILED = "profiled"  # a window of steps is recorded: the first and last of them, and where it lies
    ENDED = "ended"  # by the launcher: the attempt, with its outcome


class Stage(StrEnum):
    """How far a host's program came."""

    STARTING = "starting"  # it has not met the others
    JOINED = "joined"  # it has
    LEAVING = "leaving"  # it has said how it ended


class StopReason(StrEnum):
    """Why a runner told its program to leave."""

    NOTICE = "notice"  # SIGTERM from the platform: preemption or shutdown
    STOP = "stop"  # somebody asked for the job to stop
    ORPHANED = "orphaned"  # nobody renewed the lease
    DEADLINE = "deadline"  # the attempt ran for longer than the job's deadline


class KilledBy(StrEnum):
    """Who ended a program by SIGKILL, where the runner knows."""

    GRACE = "grace"  # the runner: it was told to leave and did not within its grace
    MEMORY = "memory"  # the kernel: there was no memory left
    STALL = "stall"  # the runner: no host made a step for too long


class Activity(StrEnum):
    """What a silent program does, by its own stacks."""

    UNKNOWN = "unknown"  # whatever else
    COMPILING = "compiling"  # inside JAX's compiler
    SAVING = "saving"  # or restoring


class ContractError(RefusedForGood):
    """A record or plan that this version cannot read; the message says why."""


def read_json(raw: bytes | str, what: str) -> dict[str, Any]:
    """Parse a record of ours. Raises `ContractError` for damage and for a newer version."""
    try:
        data = json.loads(raw)
    except ValueError as exc:
        raise ContractError(
            f"{what} is damaged: {exc}. It was cut short or overwritten: put a copy of it back, or delete it and run"
            " the job again."
        ) from exc
    if not isinstance(data, dict) or not isinstance(data.get("version"), int):
        raise ContractError(f"{what} is not a record of prefect-tpu: it has no version.")
    if data["version"] > VERSION:
        raise ContractError(
            f"{what} was written by a newer prefect-tpu (record version {data['version']}, this one reads up to"
            f" {VERSION}). Upgrade prefect-tpu here."
        )
    return data


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Whatever a record lacks, has too much or mistypes is a `ContractError`, never an error of Python's."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, UsageError) as exc:
        why = f"no {exc}" if isinstance(exc, KeyError) else exc
        raise ContractError(
            f"{what} lacks or mistypes a field ({why}): it was changed by hand or by another prefect-tpu. Put a copy"
            " of it back, or delete it and run the job again."
        ) from exc


def write_json(data: dict[str, Any]) -> bytes:
    """One canonical form, so that equal content means equal bytes."""
    return json.dumps({"version": VERSION, **data}, sort_keys=True, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramError:
    """An exception of the program as the host saw it."""

    type: str  # the name of its class
    message: str  # what it said
    traceback: str  # its end, where all of it would be too long


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultInfo:
    """A value that a host left in a file."""

    encoding: str  # "json" or "cloudpickle"
    sha256: str  # its hash, checked before it is used
    bytes: int  # its size


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a host's program is, by its own report.

    step: the newest that was reported.
    first_step: the first that this attempt reported.
    saved_step: the newest whose checkpoint is sealed, or that was restored.
    metrics: what was reported with the newest step.
    step_seconds: from one report to the next, at the mean of the last ones.
    own_seconds: of these, what this host did not wait in its reports for values that all hosts compute together.
    """

    step: int | None = None
    first_step: int | None = None
    saved_step: int | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    reported_after: float | None = None  # seconds from the runner's start to the newest report
    step_seconds: float | None = None
    own_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A host whose program reports no step any more.

    silent_for: seconds without a sign of life.
    where: where its own code stands, such as `train.py:41 in main`; empty where that is not known.
    is_waiting: it stands inside JAX or a call of ours, where a host waits for the others.
    is_agreed: it saw every other watched host silent too, and kept its stacks after that.
    """

    silent_for: float
    activity: str = Activity.UNKNOWN.value
    where: str = ""
    is_waiting: bool = False
    step: int | None = None
    reported_after: float | None = None
    is_agreed: bool = False

    @classmethod
    def from_json(cls, raw: bytes | str) -> Silence:
        data = read_json(raw, "A host's silence")
        with reading("A host's silence"):
            activity = Activity(data.get("activity", Activity.UNKNOWN))
            return cls(**{**_known(cls, data), "silent_for": float(data["silent_for"]), "activity": activity.value})


REGION_LOST = "RegionLost"  # the type of the error of a host whose flow has lost another one


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """How one host of one attempt ended. At most `RECORD_LIMIT_BYTES` as JSON.

    Durations are seconds on the host's own monotonic clock since its runner started.

    exit_code: the runner's own, an `ExitCode`.
    program_code, program_signal: how the program's process ended.
    stage: how far it came, a `Stage`.
    stop_reason: why it was told to leave, a `StopReason`; None where it was not.
    joined_after: when it had met the others.
    ended_after: when its program had ended.
    error: what the program raised.
    lost_peer: what it raised came from another host's end.
    killed_by: who sent SIGKILL, a `KilledBy`, where the runner knows.
    result: the leader's value.
    """

    attempt: int
    host: int
    exit_code: int
    program_code: int | None = None
    program_signal: int | None = None
    stage: str = Stage.STARTING.value
    stop_reason: str | None = None
    joined_after: float | None = None
    ended_after: float = 0.0
    progress: Progress = field(default_factory=Progress)
    error: ProgramError | None = None
    lost_peer: bool = False
    out_of_memory: bool = False  # the program's own account: what it raised began with it
    killed_by: str | None = None
    silence: Silence | None = None  # of a program that was ended because it stood still
    result: ResultInfo | None = None
    exception: ResultInfo | None = None  # the pickle of what a sent function raised

    @property
    def had_met_others(self) -> bool:
        """Whether all hosts were there at some time, so that one that is missing now was lost."""
        has_lost_one = self.lost_peer and self.error is not None and self.error.type == REGION_LOST
        return self.joined_after is not None or has_lost_one

    @property
    def ended_since_join(self) -> float:
        """Seconds since all hosts met: the one clock that hosts share."""
        return self.ended_after - (self.joined_after or 0.0)

    def to_json(self) -> bytes:
        """The record within its limit: metrics, an endless place and the head of the traceback go first."""
        data = asdict(self)
        if len(write_json(data)) > RECORD_LIMIT_BYTES:
            data["progress"]["metrics"] = {}
            if self.silence:
                data["silence"]["where"] = self.silence.where[:LONGEST_WHERE]
        while len(raw := write_json(data)) > RECORD_LIMIT_BYTES and data["error"]:
            data["error"] = _shorten(data["error"], len(raw) - RECORD_LIMIT_BYTES)
        return raw

    @classmethod
    def from_json(cls, raw: bytes | str) -> HostRecord:
        data = read_json(raw, "A host's record")
        with reading("A host's record"):
            return cls(
                **{
                    **_known(cls, data),
                    "progress": Progress(**_known(Progress, data["progress"])),
                    "error": data["error"] and ProgramError(**_known(ProgramError, data["error"])),
                    "result": data["result"] and ResultInfo(**_known(ResultInfo, data["result"])),
                    "silence": data.get("silence") and Silence(**_known(Silence, data["silence"])),
                    "exception": data.get("exception") and ResultInfo(**_known(ResultInfo, data["exception"])),
                }
            )


def _known(cls: type[Any], data: dict[str, Any]) -> dict[str, Any]:
    """Only the fields this version knows: an older writer's extras do not stop a newer reader."""
    names = {f.name for f in fields(cls)}
    return {key: value for key, value in data.items() if key in names}


def _shorten(error: dict[str, str], excess: int) -> dict[str, str]:
    """Cut the longest text: the traceback's head, the message's tail."""
    key = max(error, key=lambda name: len(json.dumps(error[name])))
    size = len(json.dumps(error[key]))
    keep = len(error[key]) * max(0, size - max(excess, 16)) // size  # one character may be many bytes of JSON
    text = error[key][-keep:] if key == "traceback" else error[key][:keep]
    return {**error, key: text if keep else ""}
