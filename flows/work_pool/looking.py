"""What does the server tell of a pool's runs? All of them now and then, and at once those that have changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

import anyio
import httpx
from prefect.client.schemas.objects import FlowRun

from prefect_tpu.flows.work_pool.cases import Case, Cases
from prefect_tpu.flows.work_pool.run_reading import Runs
from prefect_tpu.infra.errors import PrefectTpuError

log = logging.getLogger(__name__)
LOOK_SECONDS = 5.0  # between two looks at the pool's runs
MANY = 100  # for each so many of them, a look comes so much later
CRASHED_LOOKS = 3  # each so many looks, those that crashed are looked at too
SHORTEST_SECONDS = 0.05  # between two questions: what changes at once is asked for together
LONGEST_REST_SECONDS = 60.0  # a server that is away is asked no less often


@dataclass
class Looking:
    """Asks the server, beside whoever acts on what it says.

    saw: takes over what is said of a run. gone: hears that a run is not there any more.
    wake: called after each answer.
    """

    runs: Runs
    cases: Cases
    saw: Callable[[FlowRun], None]
    gone: Callable[[Case], None]
    wake: Callable[[], None]
    _changed: set[UUID] = field(default_factory=set)
    _has_heard: anyio.Event = field(default_factory=anyio.Event)

    def heard(self, run: UUID, state: UUID) -> None:
        """It has changed to this state, which may be our own doing."""
        if not self.cases.knows(run, state):
            self._changed.add(run)
            self._has_heard.set()

    async def keep_looking(self) -> None:
        """At all runs that are at work, for ever; cancel it."""
        failures = looks = 0
        while True:
            try:
                seconds = LOOK_SECONDS * (1 + await self._look(looks) // MANY)
                failures, looks = 0, looks + 1
            except (httpx.HTTPError, PrefectTpuError) as exc:
                failures += 1
                seconds = min(LONGEST_REST_SECONDS, LOOK_SECONDS * 2 ** min(failures - 1, 8))
                if failures == 1:
                    log.warning("The runs of the work pool are not known: %s. Asked again.", exc)
            self.wake()
            await anyio.sleep(seconds)

    async def keep_hearing(self) -> None:
        """Between two looks, of what has changed. What the server does not answer now is seen by the next look."""
        while True:
            await self._has_heard.wait()
            self._has_heard = anyio.Event()
            changed, self._changed = self._changed, set()
            try:
                await self._see((), set(), changed)
            except (httpx.HTTPError, PrefectTpuError) as exc:
                log.info("%d runs that changed are not known: %s", len(changed), exc)
            self.wake()
            await anyio.sleep(SHORTEST_SECONDS)

    async def _look(self, looks: int) -> int:
        """How many runs are at work."""
        runs = await self.runs.at_work()
        await self._see(runs, {run.id for run in runs}, set(self.cases.open))
        if looks % CRASHED_LOOKS == 0:
            await self._see(await self.runs.crashed(), set(), set())
        return len(runs)

    async def _see(self, runs: Iterable[FlowRun], seen: set[UUID], wanted: set[UUID]) -> None:
        """Take over what is said of these runs, and of others that are asked for."""
        others = wanted - seen
        found = await self.runs.named(others) if others else {}
        for run in [*runs, *(run for run in found.values() if run is not None)]:
            self.saw(run)
        for number in [number for number, run in found.items() if run is None and number in self.cases.open]:
            self.gone(self.cases.open[number])
