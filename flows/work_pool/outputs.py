"""Where do jobs of a pool lie, and which of them does no run tell of? Found by their names, in few requests."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import UUID

import anyio
import anyio.to_thread
import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import WorkPool

from prefect_tpu.flows.work_pool.configuration import TpuSliceConfiguration
from prefect_tpu.flows.work_pool.submission import with_saved_clusters
from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.launcher.asked_by import read_asked_by
from prefect_tpu.infra.launcher.jobs import folder_names
from prefect_tpu.infra.pods import in_pods
from prefect_tpu.infra.request import default_output, job_folder
from prefect_tpu.infra.storage import open_storage

log = logging.getLogger(__name__)
SCAN_SECONDS = 60.0


def is_folder(pid: str) -> bool:
    """Whether what a run has as `infrastructure_pid` is a job's folder."""
    return pid.startswith(("/", "gs://"))


@dataclass
class Outputs:
    """The outputs that jobs of one pool are in, as far as they are known.

    default: of runs that ask for no other; empty while it is not known, and where the pool has none.
    over: folders of jobs that have their end; they are not asked again.
    """

    client: PrefectClient
    pool: WorkPool
    default: str = ""
    known: set[str] = field(default_factory=set)
    over: set[str] = field(default_factory=set)

    async def asker(self, folder: str) -> UUID | None:
        """The run of this pool whose job lies there; None where it is nobody's here."""
        try:
            asked = await anyio.to_thread.run_sync(lambda: read_asked_by(open_storage(folder)))
        except PrefectTpuError as exc:
            log.warning("Whose job %s is cannot be read: %s", folder, exc)
            return None
        self.over.discard(folder)
        return UUID(asked.flow_run) if asked is not None and asked.work_pool == str(self.pool.id) else None

    async def keep_scanning(self, found: Callable[[UUID, str], Awaitable[None]]) -> None:
        """For ever: tell of each job without an end, and of whose it is."""
        is_told = False
        while True:
            try:
                await self._find_default()
                for folder in await anyio.to_thread.run_sync(self._unended):
                    if (run := await self.asker(folder)) is not None:
                        await found(run, folder)
                is_told = False
            except (PrefectTpuError, httpx.HTTPError, OSError) as exc:
                if not is_told:
                    log.warning("The jobs of work pool %r cannot be looked for: %s", self.pool.name, exc)
                is_told = True
            await anyio.sleep(SCAN_SECONDS)

    def _unended(self) -> list[str]:
        found = []
        for output in sorted({self.default, *self.known} - {""}):
            storage = open_storage(output)
            for name in folder_names(storage):
                folder = job_folder(output, name)
                if folder in self.over:
                    continue
                inside = storage.inside(name)
                if inside.get(layout.RESULT) is not None:
                    self.over.add(folder)
                elif inside.get(layout.JOB) is not None:
                    found.append(folder)
        return found

    async def _find_default(self) -> None:
        """As the pool's own settings have it: a run that asks for nothing else has its job there."""
        if self.default:
            return
        template = self.pool.base_job_template
        asked = await TpuSliceConfiguration.from_template_and_values(template, {}, client=self.client)
        asked = await with_saved_clusters(asked)
        backend = in_pods(asked.backend or None, asked.said_of_pods).get("backend", "local")
        self.default = asked.output or default_output(backend)
