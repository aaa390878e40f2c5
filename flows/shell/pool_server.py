"""What does the Prefect server know of a work pool, and how is it told? Errors are ours, and say what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.objects import Worker, WorkPool
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from prefect_tpu.flows.shell.prefect_server import prefect_server
from prefect_tpu.infra.errors import UsageError

TYPE = "tpu-slice"
MOST_WORKERS = 200  # what a server gives at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """Work pools on the server of the profile in use."""

    client: SyncPrefectClient

    def read(self, name: str) -> WorkPool:
        """One of ours. Raises `UsageError` where there is none of that name, or it is of another type."""
        found = self._find(name)
        if found is None:
            raise UsageError(f"There is no work pool {name!r}: `prefect-tpu pool create {name}` makes it.")
        _check_type(found)
        return found

    def check_free(self, name: str) -> None:
        """Raise `UsageError` where a pool has the name."""
        found = self._find(name)
        if found is not None:
            _check_type(found)
            raise UsageError(
                f"Work pool {name!r} is there already: `prefect-tpu pool update {name}` brings its template up to date,"
                f" `prefect-tpu pool show {name}` says how it stands."
            )

    def create(self, name: str, template: Mapping[str, Any]) -> None:
        """Make it. Raises `UsageError` where somebody else just did."""
        try:
            self.client.create_work_pool(WorkPoolCreate(name=name, type=TYPE, base_job_template=dict(template)))
        except ObjectAlreadyExists as exc:
            raise UsageError(f"Work pool {name!r} was made by somebody else just now: look at it first.") from exc

    def update(self, name: str, template: Mapping[str, Any]) -> None:
        """Give it another template."""
        self.client.update_work_pool(name, WorkPoolUpdate(base_job_template=dict(template)))

    def workers(self, name: str) -> list[Worker]:
        """Those that ever asked for its runs, the latest first."""
        found = self.client.read_workers_for_work_pool(name, limit=MOST_WORKERS)
        return sorted(found, key=lambda worker: str(worker.last_heartbeat_time), reverse=True)

    def _find(self, name: str) -> WorkPool | None:
        try:
            return self.client.read_work_pool(name)
        except ObjectNotFound:
            return None


@contextmanager
def pools() -> Iterator[Pools]:
    """The server's. What it refuses in the block is an error of ours."""
    with prefect_server() as client:
        yield Pools(client=client)


def _check_type(pool: WorkPool) -> None:
    if pool.type != TYPE:
        raise UsageError(f"Work pool {pool.name!r} is of type {pool.type!r}, not {TYPE!r}: name another pool.")
