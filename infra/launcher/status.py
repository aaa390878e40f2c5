"""How does a job stand? Told from its files alone, by any process, whether anybody drives it or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import Failure, NoSuchJob
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.host_status import HostReader, HostStatus
from prefect_tpu.infra.launcher.lease import driver_of
from prefect_tpu.infra.launcher.waiting import read_waiting
from prefect_tpu.infra.launcher.written import Reader, Written
from prefect_tpu.infra.policy.offers import offer_of, offers_of, where
from prefect_tpu.infra.policy.slow import SlowHost, slow_host
from prefect_tpu.infra.state import HostPhase, JobState
from prefect_tpu.infra.storage import Storage, local_folder, open_storage

BUCKET_LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job as its folder shows it now.

    output: the job's folder.
    state: where nobody drives, what it was when somebody last did.
    attempt: number of the newest attempt, 0 before the first.
    accelerator, cluster, zone: of the newest attempt; before it, what was asked for first.
    where: such a place, as far as it tells the offer apart from the job's others; empty where it does not.
    steps: how many there will be, where the program has a parameter of that name.
    driver: who drives it; None where nobody does or whoever did is dead.
    waiting: what it waits for, while it has no slice.
    hosts: of the newest attempt; none while the job waits for the next one.
    attempts: that have ended, of all rounds, oldest first.
    failure, value: of the job's end.
    began, changed: seconds since the epoch: when it was first asked for, and when its files last changed.
    """

    name: str
    output: str
    state: JobState
    attempt: int
    accelerator: str
    cluster: str | None = None
    zone: str | None = None
    where: str = ""
    accelerators: tuple[str, ...]
    steps: int | None
    driver: str | None
    waiting: str | None = None
    hosts: tuple[HostStatus, ...]
    attempts: tuple[AttemptSummary, ...]
    failure: Failure | None
    value: Any
    began: float
    changed: float

    @property
    def is_abandoned(self) -> bool:
        """Without an end and without anybody who brings it there."""
        return not self.state.is_final and self.driver is None

    @property
    def step(self) -> int | None:
        """The furthest step that any host reported in the newest attempt."""
        return _highest(host.progress.step for host in self.hosts)

    @property
    def saved_step(self) -> int | None:
        """The furthest step that any attempt saved."""
        saved = [host.progress.saved_step for host in self.hosts]
        return _highest([*saved, *(attempt.saved_step for attempt in self.attempts)])

    @property
    def slow_host(self) -> SlowHost | None:
        """The host that keeps the others of the newest attempt waiting."""
        return slow_host({host.host: host.progress for host in self.hosts})

    def to_json(self) -> dict[str, Any]:
        shallow = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            **shallow,
            "step": self.step,
            "saved_step": self.saved_step,
            "slow_host": None if self.slow_host is None else self.slow_host.host,
            "hosts": [host.to_json() for host in self.hosts],
            "attempts": [attempt.to_json() for attempt in self.attempts],
            "failure": self.failure and self.failure.to_json(),
        }


def read_status(folder: str) -> JobStatus:
    """The job whose folder this is.

    Raises:
        NoSuchJob: there is no job.
        ContractError: a file of it is damaged, or was written by a newer version.
    """
    return StatusReader(open_storage(folder)).read()


def pause_between_looks(storage: Storage, seconds: float) -> float:
    """As many as somebody who watches wants; of a bucket, which counts what it is asked, not fewer than a few."""
    return seconds if local_folder(storage) is not None else max(seconds, BUCKET_LOOK_SECONDS)


class StatusReader:
    """Looks at one job again and again; what cannot have changed is read once."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._reader, self._hosts = Reader(storage), HostReader(storage)

    def read(self) -> JobStatus:
        """How it stands now; raises as `read_status` does."""
        storage = self._storage
        job = history.read_job(storage)
        if job is None:
            raise NoSuchJob(f"There is no job in {storage.url}: check its name and the output.")
        written = self._reader.look()
        result = history.read_result(storage) if written.has_result else None
        plan = written.newest
        hosts, hosts_changed = self._hosts.read(plan) if plan and (written.live or result) else ((), 0.0)
        offers = offers_of(job)
        offer = offer_of(plan) if plan else offers[0]
        driver = driver_of(storage)
        waiting = None if result else _waiting(storage, written, hosts)
        changed = {name: storage.changed(name) or 0.0 for name in _telling(written)}
        return JobStatus(
            name=job.name,
            output=storage.url,
            state=JobState(result.state) if result else _state(written, hosts, waiting),
            attempt=written.last_number,
            accelerator=offer.accelerator,
            cluster=offer.cluster,
            zone=offer.zone,
            where=where(offer, offers),
            accelerators=job.accelerators,
            steps=job.program.steps,
            driver=None if driver is None else str(driver),
            waiting=waiting,
            hosts=hosts,
            attempts=written.all_ended,
            failure=result.failure if result else None,
            value=result.value if result else None,
            began=changed[layout.JOB],
            changed=max(hosts_changed, *changed.values()),
        )


def _waiting(storage: Storage, written: Written, hosts: Sequence[HostStatus]) -> str | None:
    """Of the attempt that is to come or that was sent; once a host of it has begun, what was written is old."""
    if not written.is_waiting or any(host.phase is not HostPhase.PENDING for host in hosts if written.live):
        return None
    return read_waiting(storage, written.last_number if written.live else written.last_number + 1)


def _state(written: Written, hosts: Sequence[HostStatus], waiting: str | None) -> JobState:
    """Of a job without an end."""
    if written.is_stop_asked:
        return JobState.STOPPING
    if waiting is not None:
        return JobState.QUEUED
    if written.live is not None:
        return JobState.RUNNING if all(host.joined for host in hosts) else JobState.STARTING
    if not written.ended:
        return JobState.QUEUED
    return JobState.RUNNING if written.ended[-1].failure is None else JobState.BACKING_OFF


def _telling(written: Written) -> list[str]:
    """The files of the launcher by which people see that a job moves."""
    asked = [layout.STOP] if written.is_stop_asked else []
    end = [layout.RESULT] if written.has_result else []
    last = written.last_number
    begun = [layout.plan(last)] if last else []
    return [layout.JOB, *asked, *end, *begun, *([layout.outcome(last)] if last in written.outcomes else [])]


def _highest(steps: Iterable[int | None]) -> int | None:
    return max((step for step in steps if step is not None), default=None)
