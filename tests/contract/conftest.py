"""What every backend is tried with: small shell programs on two hosts, without JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Attempt, Backend, Handle, Held
from prefect_tpu.infra.backends.local import LocalBackend
from prefect_tpu.infra.job import Program, SliceJob
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.state import Observation, Offer
from prefect_tpu.infra.storage import LocalStorage

# name → how to open the backend; the environment is that of a machine of the test's own.
BACKENDS: dict[str, Callable[[Mapping[str, str]], Backend]] = {"local": LocalBackend}
PATIENCE_SECONDS = 20.0


class Desk:
    """One job at one backend, and what a launcher does with it."""

    def __init__(self, open_backend: Callable[[], Backend], output: Path) -> None:
        self.open = open_backend
        self.backend = open_backend()
        self.storage = LocalStorage(output)

    def attempt(self, shell: str, *, number: int = 1, name: str = "job", accelerator: str = "cpu-2x1", **changes: Any):
        program = Program(kind="command", target="sh", arguments=("-c", shell))
        job = SliceJob(name=name, program=program, accelerators=(accelerator,), **changes)
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
        with anyio.fail_after(PATIENCE_SECONDS):
            async for snapshot in self.backend.observe(handle):
                if is_it(snapshot):
                    return snapshot
        raise AssertionError("observing an attempt never ends by itself")

    async def written(self, name: str) -> None:
        """Until a program has written this file into the job's folder."""
        with anyio.fail_after(PATIENCE_SECONDS):
            while not (self.storage.root / name).exists():
                await anyio.sleep(0.02)


@pytest.fixture(params=sorted(BACKENDS))
def open_backend(request: pytest.FixtureRequest, machine: Any) -> Callable[..., Backend]:
    """Opens the backend as another process would: nothing is shared but the machine."""
    return lambda **environment: BACKENDS[request.param]({**machine.environment, **environment})


@pytest.fixture
def desk(open_backend: Callable[..., Backend], machine: Any) -> Iterator[Desk]:
    yield Desk(open_backend, machine.output / "job")
    assert machine.left() == [], "a test of the contract forgets what it began"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
