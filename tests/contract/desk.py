"""One job at one backend, and what a launcher does with it: small shell programs, without JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Attempt, Backend, Handle, Held
from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.job import Program, SliceJob
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.state import Observation, Offer
from prefect_tpu.infra.storage import LocalStorage

PATIENCE_SECONDS = 20.0
HOST = "$PREFECT_TPU_HOST"
FOREVER = "while :; do sleep 0.05; done"


def records(seen: Observation) -> list[HostRecord]:
    """Of all hosts, which must have one."""
    found = [host.record for host in seen.hosts]
    assert None not in found, seen
    return [record for record in found if record is not None]


class Desk:
    """What the tests of the contract ask for.

    open: opens the backend as another process would.
    folder: the job's, at the path where its hosts see it too.
    settings: of every job, beside what a test says.
    patience: seconds until what was waited for counts as missing.
    """

    def __init__(
        self,
        open_backend: Callable[[], Backend],
        output: Path,
        settings: Mapping[str, Any] | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.open = open_backend
        self.backend = open_backend()
        self.storage = LocalStorage(output)
        self.folder = self.storage.url
        self.settings, self.patience = dict(settings or {}), patience

    def attempt(self, shell: str, *, number: int = 1, name: str = "job", accelerator: str = "cpu-2x1", **changes: Any):
        program = Program(kind="command", target="sh", arguments=("-c", shell))
        job = SliceJob(name=name, program=program, accelerators=(accelerator,), **{**self.settings, **changes})
        return Attempt(job=job, number=number, output=self.storage.url)

    async def provision(self, attempt: Attempt) -> Held:
        held = await self.backend.provision(attempt, Offer(accelerator=attempt.job.accelerators[0]))
        assert isinstance(held, Held), held
        return held

    async def begin(self, shell: str, **changes: Any) -> tuple[HostPlan, Held, Handle]:
        """A slice, the plan laid down, and the hosts started."""
        attempt = self.attempt(shell, **changes)
        held = await self.provision(attempt)
        plan = self.backend.plan(attempt, held).hosts
        self.storage.put_if_absent(layout.plan(plan.attempt), plan.to_json())
        return plan, held, await self.backend.submit(plan, held)

    async def ended(self, handle: Handle) -> Observation:
        """The last snapshot of an attempt."""
        return await self.seen(handle, lambda seen: seen.has_ended)

    async def seen(self, handle: Handle, is_it: Callable[[Observation], bool]) -> Observation:
        with anyio.fail_after(self.patience):
            async for snapshot in self.backend.observe(handle):
                if is_it(snapshot):
                    return snapshot
        raise AssertionError("observing an attempt never ends by itself")

    async def written(self, name: str) -> None:
        """Until a program has written this file into the job's folder."""
        with anyio.fail_after(self.patience):
            while not (self.storage.root / name).exists():
                await anyio.sleep(0.02)
