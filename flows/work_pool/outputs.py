"""Where do jobs of a pool lie, and which of them have no end? Found by their names, in few requests."""

from __future__ import annotations

import logging
from collections.abc import Set
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import WorkPool

from prefect_tpu.flows.work_pool.configuration import TpuSliceConfiguration
from prefect_tpu.flows.work_pool.submission import with_saved_clusters
from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Place
from prefect_tpu.infra.errors import PlatformError, PrefectTpuError, UsageError
from prefect_tpu.infra.launcher.jobs import folder_names
from prefect_tpu.infra.pods import in_pods
from prefect_tpu.infra.request import default_output, job_folder
from prefect_tpu.infra.storage import Storage, open_storage

log = logging.getLogger(__name__)
# By a worker that was killed: a run to be told, secrets, its lease.
LEFT_BEHIND = frozenset({layout.ORPHANED, layout.SECRETS, layout.SECRET_KEPT, layout.LEASE})
OBJECTS_SCANS = 10  # each so many scans, the cluster's objects are asked too


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A job that is to be looked at. is_over: it has its end, and something is left to be done."""

    folder: str
    is_over: bool


@dataclass
class Outputs:
    """The outputs that jobs of one pool are in, as far as they are known.

    default: of runs that ask for no other; empty while it is not known.
    others: of runs that asked for theirs.
    place: the cluster and the namespace of runs that ask for no other; None where hosts are processes of a machine.
    over: folders of jobs that have their end; they are not asked again.
    """

    client: PrefectClient
    pool: WorkPool
    default: str = ""
    others: set[str] = field(default_factory=set)
    place: Place | None = None
    over: set[str] = field(default_factory=set)
    _scans: int = 0
    _unread: set[str] = field(default_factory=set)

    @property
    def all(self) -> set[str]:
        return {self.default, *self.others} - {""}

    def folder_of(self, job: str) -> str:
        """Where a job would be that asked for no output of its own; empty where nobody knows."""
        return job_folder(self.default, job) if self.default else ""

    def heard_of(self, folder: str) -> None:
        """A job lies there; it may have begun again."""
        self.over.discard(folder)
        output = folder.rstrip("/").rpartition("/")[0]
        if output != self.default.rstrip("/"):
            self.others.add(output)

    async def scan(self, known: Set[str] = frozenset()) -> list[Found]:
        """All jobs without an end, and those with one of which something is left.

        known: folders that nobody has to find: a bucket is asked a question for each of the others.
        Raises `PrefectTpuError` where an output cannot be read, or the pool's settings name none.
        """
        await self._find_default()
        if self.place is not None and self._scans % OBJECTS_SCANS == 0:
            self.others |= await anyio.to_thread.run_sync(anyio.run, _told_by_objects, self.place) - {self.default}
        self._scans += 1
        return await anyio.to_thread.run_sync(self._scan, known)

    def _scan(self, known: Set[str]) -> list[Found]:
        found: list[Found] = []
        there: set[str] = set()
        for output in sorted(self.all):
            try:
                for name in folder_names(storage := open_storage(output)):
                    there.add(folder := job_folder(output, name))
                    if folder in self.over or folder in known:
                        continue
                    if (seen := self._look(storage.inside(name), folder)) is not None:
                        found.append(seen)
                self._unread.discard(output)
            except (PrefectTpuError, OSError) as exc:  # of one that some run named: it hides no other
                if output == self.default:
                    raise
                if output not in self._unread:
                    log.warning("Jobs in %s, which a run has asked for, cannot be looked for: %s", output, exc)
                self._unread.add(output)
        self.over &= there
        return found

    def _look(self, inside: Storage, folder: str) -> Found | None:
        there = set(inside.children(""))
        if layout.RESULT not in there:
            return Found(folder=folder, is_over=False) if layout.JOB in there else None
        self.over.add(folder)
        return Found(folder=folder, is_over=True) if there & LEFT_BEHIND else None

    async def _find_default(self) -> None:
        """As the pool's own settings have it: a run that asks for nothing else has its job there."""
        if self.default:
            return
        template = self.pool.base_job_template
        asked = await TpuSliceConfiguration.from_template_and_values(template, {}, client=self.client)
        asked = await with_saved_clusters(asked)
        placed = in_pods(asked.backend or None, asked.said_of_pods)
        self.default = asked.output or default_output(placed.get("backend", "local"))
        self.place = (pods.cluster, pods.namespace) if (pods := placed.get("pods")) is not None else None


async def _told_by_objects(place: Place) -> frozenset[str]:
    """Of jobs whose runs were deleted, and that asked for an output of their own, nobody else tells."""
    from prefect_tpu.infra.backends.jobset_remnants import outputs_in  # with a client that a worker may have no use for

    try:
        return await outputs_in(*place)
    except (UsageError, PlatformError) as exc:
        log.info("Where jobs of the objects in namespace %r lie is not known: %s", place[1], exc)
        return frozenset()


def is_folder(pid: str) -> bool:
    """Whether what a run has as `infrastructure_pid` is a job's folder."""
    return pid.startswith(("/", "gs://"))
