"""What every backend can do, and the data that passes between it and the launcher."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from prefect_tpu.infra.checks import Look
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.plan import HostPlan, RestorePoint
from prefect_tpu.infra.policy.quota import Ruling
from prefect_tpu.infra.state import Observation, Offer, Waiting

Handle = dict[str, Any]  # JSON: any process can attach with it again
Place = tuple[str | None, str]  # a cluster by its name, and a namespace in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A slice that this job has: what the backend needs to use it and to give it back.

    serves_once: it was made for one attempt, and the next one has another.
    """

    offer: Offer
    handle: Handle
    serves_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """This offer cannot be had, however long one waits.

    reason: for people.
    is_barred: it is not the slice that is lacking: a right, a name or a policy is in the way of the job itself.
    """

    reason: str
    is_barred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Exactly what will be sent.

    hosts: what each host reads.
    commands: what starts them, where they are processes of this machine.
    objects: what is created, in this order, where they are pods of a cluster.
    pools: node pools that are asked for before that, as Google's Container API is asked.
    """

    hosts: HostPlan
    commands: tuple[tuple[str, ...], ...] = ()
    objects: tuple[dict[str, Any], ...] = ()
    pools: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Which attempt: of what job, with what number, writing into the job's folder `output`, from where."""

    job: SliceJob
    number: int
    output: str
    restore: RestorePoint | None = None
    avoid: tuple[str, ...] = ()  # places, as `HostObservation.place` names them, that earlier attempts lost hosts on


@dataclass(frozen=True, slots=True, kw_only=True)
class Remnant:
    """Something of one attempt that is still there, whether anybody wants it or not.

    output: the job's folder; None where only the folder of somebody else's jobs has it.
    what: for people, such as `3 processes` or `JobSet digits-3`.
    age: seconds since it began.
    handle: by which `forget` ends it.
    job: the job's name, where the folder does not tell.
    comes_first: it was there before the attempt had its plan.
    overdue: seconds since anybody may end it, whatever else is known; None before.
    is_over: nothing of the attempt runs any more.
    """

    output: str | None
    attempt: int
    what: str
    age: float
    handle: Handle
    job: str = ""
    comes_first: bool = False
    overdue: float | None = None
    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line that a host's program wrote."""

    host: int
    text: str


class Backend(Protocol):
    """Where slices come from.

    Every verb may be repeated: `provision` returns the slice it already has,
    `submit` adopts what exists, `stop`, `forget` and `release` of what is gone
    do nothing.
    """

    @property
    def look_seconds(self) -> float:
        """How often its output and its hosts may be looked at."""
        ...

    def default_output(self) -> str:
        """Where all jobs lie where nobody names a place. Raises `UsageError` where one must be named."""
        ...

    def check(self, job: SliceJob, output: str) -> None:
        """Raise `UsageError` where it cannot carry out such a job, or its hosts could not write there.

        It starts nothing and waits for nothing. output: of all jobs.
        """
        ...

    def checks(self, output: str) -> Mapping[str, Look]:
        """What `prefect-tpu doctor` looks at before a job is sent here, by name, in the order to be told."""
        ...

    async def remnants(
        self, output: str, jobs: Sequence[SliceJob], places: Sequence[Place] = ()
    ) -> tuple[Remnant, ...]:
        """What is still there of attempts of jobs below an output, for the reaper to judge.

        jobs: those of this backend that lie in the output; what is found may belong to others, which were deleted.
        places: where else to look than where these jobs are.
        """
        ...

    async def limits(self, job: SliceJob, offer: Offer, output: str) -> tuple[Ruling, ...]:
        """What the job needs of this offer against what there is: what each source says that counts.

        Raises nothing for a source that does not answer, and waits for none longer than some seconds.
        """
        ...

    async def provision(self, attempt: Attempt, offer: Offer) -> Held | Waiting | Refused:
        """Find or make a slice. Never blocks on capacity: asked again until it is held or refused."""
        ...

    def imagine(self, attempt: Attempt, offer: Offer) -> Held | Refused:
        """The slice as it would be held, for a plan to be shown; takes none."""
        ...

    def plan(self, attempt: Attempt, held: Held) -> Plan:
        """What would be sent; sends nothing."""
        ...

    async def submit(self, plan: HostPlan, held: Held | None) -> Handle:
        """Start the plan on its hosts, or adopt what runs. `held` is None when adopting."""
        ...

    def attach(self, plan: HostPlan) -> Handle:
        """The handle of a plan that somebody sent; sends nothing."""
        ...

    def observe(self, handle: Handle) -> AsyncGenerator[Observation, None]:
        """Complete snapshots: the first at once, then on each change, at least every 30 s."""
        ...

    def logs(
        self, handle: Handle, hosts: tuple[int, ...] | None = None, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[LogLine, None]:
        """Lines of the given hosts (all by default), in the order each host wrote them.

        tail: how many last lines of each host to begin with; all by default.
        """
        ...

    async def stop(self, handle: Handle) -> None:
        """Tell the hosts to save and leave."""
        ...

    async def forget(self, handle: Handle) -> None:
        """End whatever of the attempt still lives and remove what it left, except its records."""
        ...

    async def release(self, held: Held) -> None:
        """Give the slice back; one whose attempt still lives goes with the attempt."""
        ...

    async def tidy(self, job: SliceJob, plan: HostPlan) -> bool:
        """Give back what a job has for this attempt and those before it, but what this one lives on.

        Returns whether nothing is left of it. What was not given back yet is tried again later.
        """
        ...

    async def withdraw(self, job: SliceJob, output: str) -> None:
        """Give back whatever a job has that no attempt of it lives on: it has ended, or nobody seeks a slice for it.

        output: the job's folder.
        """
        ...
