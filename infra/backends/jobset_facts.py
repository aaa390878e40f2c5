"""What is known of one attempt that runs in a cluster? What Kubernetes says of it, as plain data of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.scratch import HostProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A condition, a state or an event in the platform's words: a reason for scripts, a message for people."""

    reason: str
    message: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """The container that runs a host. At most one of the first two is true.

    is_running, has_ended: its state; before the first it waits, as `waiting` says where Kubernetes says so.
    ended: the reason and the termination message, once it has ended.
    """

    is_running: bool = False
    has_ended: bool = False
    waiting: Said | None = None
    ended: Said | None = None
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """One pod, as it is or as it was last seen.

    host: the host's number over all slices; a helper's among the helpers.
    disruption: why the platform ended it, where it says so.
    unschedulable: why the scheduler has no node for it.
    evicted: the pod's own reason, which a kubelet gives when it ends a pod.
    unsteady: with helpers, which container beside its own does not stay up, and what it said at its last end.
    deleted_at: when its deletion was asked for, in the API server's seconds since the epoch.
    """

    name: str
    uid: str
    host: int
    slice: int
    phase: str
    is_helper: bool = False
    created_at: float = 0.0
    node: str = ""
    is_spot: bool = False
    is_gone: bool = False
    deleted_at: float | None = None
    disruption: Said | None = None
    unschedulable: str = ""
    evicted: Said | None = None
    unsteady: Said | None = None
    container: ContainerFacts = field(default_factory=ContainerFacts)

    @property
    def is_deleting(self) -> bool:
        return self.deleted_at is not None

    @property
    def has_begun(self) -> bool:
        return self.container.is_running or self.container.has_ended

    @property
    def has_ended(self) -> bool:
        return self.is_gone or self.container.has_ended or self.phase in ("Succeeded", "Failed")

    def gone(self) -> PodFacts:
        """The same, once nobody names it any more."""
        return self if self.is_gone else replace(self, is_gone=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """A machine that pods of this kind may run on.

    is_lost: its kubelet is not heard of, or it is gone.
    is_gone: it is no node of the cluster any more.
    is_serviced: Google takes it away for maintenance.
    is_open: new pods may be placed on it.
    """

    name: str
    pool: str
    is_lost: bool = False
    is_gone: bool = False
    is_serviced: bool = False
    is_open: bool = True
    is_spot: bool = False

    def lost(self) -> NodeFacts:
        """The same, once it is gone: what was known of it still tells why."""
        return replace(self, is_lost=True, is_gone=True, is_open=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """The Job of one slice."""

    name: str
    slice: int = 0
    is_helper: bool = False
    is_deleting: bool = False
    failed: Said | None = None  # also while it only means to fail
    is_complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSetFacts:
    """The attempt's JobSet. `is_told_to_stop`: by us, where it is suspended or deleted."""

    name: str
    uid: str
    is_suspended: bool = False
    is_deleting: bool = False
    is_told_to_stop: bool = False
    is_complete: bool = False
    failed: Said | None = None
    queue: str | None = None

    @property
    def has_ended(self) -> bool:
        return self.is_complete or self.is_deleting or self.failed is not None

    @property
    def begins_nothing(self) -> bool:
        """Whether a pod of it that has not begun never will."""
        return self.has_ended or self.is_told_to_stop


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFacts:
    """What Kueue says of the attempt. `position`: in its queue, from 1, where that is known."""

    is_admitted: bool = False
    pending: str = ""
    evicted: Said | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFacts:
    """Something that happened to an object, newest message of its kind."""

    kind: str
    name: str
    said: Said
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFacts:
    """What one host wrote into the job's folder. `damage`: why its record cannot be read."""

    has_started: bool = False
    progress: HostProgress = field(default_factory=HostProgress)
    record: HostRecord | None = None
    damage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that is known of one attempt at one moment.

    jobset: None where it is not there.
    was_there: whether it, or a pod of it, was seen in the cluster before.
    pods: of every host, also those that are gone by now, the oldest first.
    nodes: the machines that its pods may be placed on.
    taken: node → whose pods are on it, where they are of another attempt.
    helpers: the same of the pods that work for its hosts, counted as hosts are; None where there are none.
    noun: what a pod of these is for people, with its number behind it.
    spare: of helpers, how many slices of them are missed by nobody; then Kubernetes replaces what is lost.
    """

    attempt: int
    slices: int
    hosts: int
    jobset: JobSetFacts | None = None
    was_there: bool = False
    jobs: tuple[JobFacts, ...] = ()
    pods: tuple[PodFacts, ...] = ()
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    taken: Mapping[str, str] = field(default_factory=dict)
    events: tuple[EventFacts, ...] = ()
    workload: WorkloadFacts | None = None
    outputs: Mapping[int, OutputFacts] = field(default_factory=dict)
    helpers: Facts | None = None
    noun: str = "host"
    spare: int = 0
    _pods_by_host: Mapping[int, list[PodFacts]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """The largest slice has thousands of hosts, and each is asked for many times a look."""
        by_host: dict[int, list[PodFacts]] = {}
        for pod in self.pods:
            by_host.setdefault(pod.host, []).append(pod)
        object.__setattr__(self, "_pods_by_host", by_host)

    @property
    def hosts_per_slice(self) -> int:
        return self.hosts // self.slices

    def called(self, host: int) -> str:
        """`host 3`, for people."""
        return f"{self.noun} {host}"

    @property
    def has_started(self) -> bool:
        """Whether a host has written that it began, whoever looked then."""
        return any(output.has_started for output in self.outputs.values())

    def pods_of(self, host: int) -> Sequence[PodFacts]:
        return self._pods_by_host.get(host, ())

    def pod(self, host: int) -> PodFacts | None:
        """The newest."""
        return max(self.pods_of(host), key=lambda pod: (pod.created_at, not pod.is_gone), default=None)

    def leader(self, index: int) -> PodFacts | None:
        """Of one slice: the pod that chooses the place for all others of it."""
        return self.pod(index * self.hosts_per_slice)

    def node(self, pod: PodFacts) -> NodeFacts | None:
        return self.nodes.get(pod.node)

    def events_of(self, kind: str, name: str) -> list[EventFacts]:
        return [event for event in self.events if (event.kind, event.name) == (kind, name)]
