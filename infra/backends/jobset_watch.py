"""What happens to one attempt now? What watches tell of it, gathered into facts and shown as snapshots.

Plain tasks of asyncio, not a task group: snapshots come out of an asynchronous generator, which may be left anywhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine, Mapping
from typing import Any

from prefect_tpu.infra.backends import crowd
from prefect_tpu.infra.backends.jobset_attempt import AttemptMemory
from prefect_tpu.infra.backends.jobset_facts import OutputFacts
from prefect_tpu.infra.backends.jobset_output import OutputLook
from prefect_tpu.infra.backends.jobset_plan import Target
from prefect_tpu.infra.backends.jobset_sources import AROUND_SECONDS, Sources, sources_of
from prefect_tpu.infra.backends.jobset_symptoms import symptoms
from prefect_tpu.infra.backends.jobset_view import view
from prefect_tpu.infra.backends.outages import OUTAGE_SECONDS, outlast
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.resources import JOBSETS
from prefect_tpu.infra.state import Observation
from prefect_tpu.infra.storage import open_storage

LONGEST_SILENCE_SECONDS = 30.0
STIR_SECONDS = 1.0  # after which a change that may mean something for the attempt is looked at
BEHIND_SECONDS = 10.0  # for which a shared watch may not yet know of an object that is there


class Watching:
    """One attempt under watch; enter it as a context."""

    def __init__(self, cluster: Kubernetes, target: Target, look_seconds: float) -> None:
        self._cluster, self._target, self._look_seconds = cluster, target, look_seconds
        self._output = OutputLook(open_storage(target.output), target.attempt, target.hosts)
        self._outputs: Mapping[int, OutputFacts] = {}
        self._has_read = False
        self._memory = AttemptMemory(target)
        self._sources: Sources | None = None
        self._is_shared = False
        self._since: dict[tuple[str, str], float] = {}
        self.lasting: Mapping[tuple[str, str], float] = {}  # seconds of each symptom, at the newest snapshot
        self._due = 0.0  # seconds from the newest look until a symptom of then has lasted too long
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._looked_at: frozenset[str] = frozenset()  # the pods whose end was known when the output was read last

    async def __aenter__(self) -> Watching:
        self._sources, self._is_shared = await sources_of(self._cluster, self._target)
        self._memory.join(self._sources)
        self._begin("output", self._look_at_output())
        self._begin("around", self._look_around(self._sources))
        return self

    async def __aexit__(self, *_: object) -> None:
        """All is told to end before anything is waited for: whoever leaves may be cancelled at each wait."""
        for task in self._tasks.values():
            task.cancel()
        if self._sources is not None:
            self._memory.leave(self._sources)
            if not self._is_shared:
                await self._sources.close()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def snapshots(self) -> AsyncGenerator[Observation, None]:
        """The first once everything was listed, then on each change, at least every 30 s."""
        await self._wait_for(self._memory.is_known)
        if self._is_shared and self._memory.jobset is None:
            await self._catch_up()
        seen: Observation | None = None
        silent_since = time.monotonic()
        while True:
            if self._memory.jobset is not None:
                await self._wait_for(self._memory.knows_nodes)
            now = await self._look()
            silent = time.monotonic() - silent_since
            if now != seen or silent >= LONGEST_SILENCE_SECONDS:
                seen, silent_since, silent = now, time.monotonic(), 0.0
                yield now
            await self._news(at_most=min(self._due, LONGEST_SILENCE_SECONDS - silent))

    async def _catch_up(self) -> None:
        """What was made a moment ago is told to whoever asks for it; a watch that began before hears of it later."""
        target = self._target
        if await self._cluster.find(JOBSETS, target.name, target.namespace) is not None:
            await self._wait_for(self._memory.has_jobset, BEHIND_SECONDS)

    async def _news(self, at_most: float) -> None:
        """Until something changed, or time alone may have changed what it means."""
        if not await self._wait_for(self._memory.stirred, at_most):
            return
        if not self._memory.changed.is_set():
            await self._wait_for(self._memory.changed, crowd.restless(STIR_SECONDS))
        self._memory.stirred.clear()
        self._memory.changed.clear()

    async def _wait_for(self, event: asyncio.Event, at_most: float | None = None) -> bool:
        """Until it is set, or a while has passed. Raises what a task of ours raised meanwhile."""
        if not event.is_set():
            waiting = asyncio.create_task(event.wait())
            try:
                ends: list[asyncio.Future[Any]] = [waiting, self._memory.broken, *self._tasks.values()]
                await asyncio.wait(ends, timeout=at_most, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
        self._raise_errors()
        return event.is_set()

    def _raise_errors(self) -> None:
        if self._memory.broken.done():
            self._memory.broken.result()
        for name, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[name]
                task.result()

    async def _look(self) -> Observation:
        """A host that has just ended wrote its record before: what it says counts from the first moment."""
        ended = self._memory.pods.ended
        if not ended <= self._looked_at:
            await self._read_output()
        facts = self._memory.facts(self._outputs)
        now = time.monotonic()
        found = symptoms(facts)
        self._since = {one.key: self._since.get(one.key, now) for one in found}
        self.lasting = {key: now - since for key, since in self._since.items()}
        left = (one.bearable - self.lasting[one.key] for one in found)
        self._due = min((seconds for seconds in left if seconds > 0.0), default=LONGEST_SILENCE_SECONDS)
        return view(facts, self.lasting)

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = asyncio.create_task(work)

    async def _look_around(self, sources: Sources) -> None:
        """Who is on nodes like ours, as long as something of ours has no node."""
        await self._memory.knows_nodes.wait()
        while True:
            await self._memory.waits_for_node.wait()
            self._memory.note_holders(await sources.around.holders())
            await asyncio.sleep(AROUND_SECONDS)

    async def _look_at_output(self) -> None:
        while True:
            before = self._outputs
            await self._read_output()
            if self._outputs != before:
                self._memory.note_change()
            await asyncio.sleep(crowd.idle(self._look_seconds))

    async def _read_output(self) -> None:
        ended = self._memory.pods.ended
        patience = OUTAGE_SECONDS if self._has_read else 0.0
        self._outputs = await outlast(lambda: asyncio.to_thread(self._output.look), patience)
        self._has_read = True
        self._looked_at = ended
