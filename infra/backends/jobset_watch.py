"""What happens to one attempt now? Watches of everything that tells of it, gathered into facts and shown as snapshots.

Plain tasks of asyncio, not a task group: snapshots come out of an asynchronous generator, which may be left anywhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import Any

from prefect_tpu.infra.backends.jobset_facts import Facts, JobSetFacts, NodeFacts, OutputFacts, WorkloadFacts
from prefect_tpu.infra.backends.jobset_helpers import apart
from prefect_tpu.infra.backends.jobset_output import OutputLook
from prefect_tpu.infra.backends.jobset_plan import Target
from prefect_tpu.infra.backends.jobset_pods import PodMemory
from prefect_tpu.infra.backends.jobset_reading import (
    holders,
    is_workload_of,
    node_labels,
    read_event,
    read_job,
    read_jobset,
    read_nodes,
    read_workload,
)
from prefect_tpu.infra.backends.jobset_symptoms import symptoms
from prefect_tpu.infra.backends.jobset_view import view
from prefect_tpu.infra.backends.outages import OUTAGE_SECONDS, outlast
from prefect_tpu.infra.gcp.errors import Forbidden, NotFound
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.resources import EVENTS, JOBS, JOBSETS, NODES, PODS, WORKLOADS, Selection
from prefect_tpu.infra.state import Observation
from prefect_tpu.infra.storage import open_storage

logger = logging.getLogger(__name__)
Object = dict[str, Any]

LONGEST_SILENCE_SECONDS = 30.0
TICK_SECONDS = 1.0  # how often it is looked whether a symptom has lasted too long
AROUND_SECONDS = 20.0  # how often it is looked, while something waits, who has the other slices


class Watching:
    """One attempt under watch; enter it as a context."""

    def __init__(self, cluster: Kubernetes, target: Target, look_seconds: float) -> None:
        self._cluster, self._target, self._look_seconds = cluster, target, look_seconds
        self._output = OutputLook(open_storage(target.output), target.attempt, target.hosts)
        self._outputs: Mapping[int, OutputFacts] = {}
        self._has_read = False
        self._pods = PodMemory(target.hosts_per_slice, target.helpers)
        self._raw_jobset: Object | None = None
        self._was_there = False
        self._jobs: tuple[Object, ...] = ()
        self._events: tuple[Object, ...] = ()
        self._nodes: dict[str, dict[str, NodeFacts]] = {}  # of each replicated job, "" that of hosts
        self._taken: dict[str, str] = {}
        self._workload: WorkloadFacts | None = None
        self._since: dict[tuple[str, str], float] = {}
        self.lasting: Mapping[tuple[str, str], float] = {}  # seconds of each symptom, at the newest snapshot
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed, self._is_known, self._knows_nodes = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._looked_at: frozenset[str] = frozenset()  # the pods whose end was known when the output was read last

    async def __aenter__(self) -> Watching:
        self._begin("attempt", self._follow_attempt())
        self._begin("output", self._look_at_output())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def snapshots(self) -> AsyncGenerator[Observation, None]:
        """The first once everything was listed, then on each change, at least every 30 s."""
        seen: Observation | None = None
        silent_since = time.monotonic()
        while True:
            await self._news()
            now = await self._look()
            if now != seen or time.monotonic() - silent_since > LONGEST_SILENCE_SECONDS:
                seen, silent_since = now, time.monotonic()
                yield now

    async def _news(self) -> None:
        """Until something changed, or time alone may have changed what it means."""
        await self._wait_for(self._is_known)
        if self._raw_jobset is not None:
            await self._wait_for(self._knows_nodes)
        await self._wait_for(self._changed, TICK_SECONDS)
        self._changed.clear()

    async def _wait_for(self, event: asyncio.Event, at_most: float | None = None) -> None:
        """Until it is set, or a while has passed. Raises what a task of ours raised meanwhile."""
        waiting = asyncio.create_task(event.wait())
        try:
            done = [waiting, *self._tasks.values()]
            await asyncio.wait(done, timeout=at_most, return_when=asyncio.FIRST_COMPLETED)
            self._raise_errors()
        finally:
            waiting.cancel()

    def _raise_errors(self) -> None:
        for name, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[name]
                task.result()

    async def _look(self) -> Observation:
        """A host that has just ended wrote its record before: what it says counts from the first moment."""
        ended = self._pods.ended
        if not ended <= self._looked_at:
            await self._read_output()
        facts = self._facts()
        now = time.monotonic()
        keys = {found.key for found in symptoms(facts)}
        self._since = {key: self._since.get(key, now) for key in keys}
        self.lasting = {key: now - since for key, since in self._since.items()}
        return view(facts, self.lasting)

    def _facts(self) -> Facts:
        jobset, helpers = self._jobset(), self._target.helpers
        found = Facts(
            attempt=self._target.attempt,
            slices=self._target.slices,
            hosts=self._target.hosts,
            jobset=jobset,
            was_there=self._was_there,
            jobs=tuple(read_job(job, helpers) for job in self._jobs),
            pods=self._pods.facts,
            nodes=self._nodes.get("", {}),
            taken=self._taken,
            events=tuple(read_event(event) for event in self._events),
            workload=self._workload,
            outputs=self._outputs,
        )
        return apart(found, helpers, self._nodes.get(helpers.job, {}) if helpers else {})

    def _jobset(self) -> JobSetFacts | None:
        return read_jobset(self._raw_jobset) if self._raw_jobset else None

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = asyncio.create_task(work)

    # What tells of it

    async def _follow_attempt(self) -> None:
        target = self._target
        own = {"namespace": target.namespace, "labels": target.selector}
        chosen = (
            *(Selection(resource=resource, **own) for resource in (JOBSETS, JOBS, PODS)),
            Selection(resource=EVENTS, namespace=target.namespace),
        )
        async with aclosing(self._cluster.watch_together(*chosen)) as watching:
            async for jobsets, jobs, pods, events in watching:
                self._raw_jobset = next(iter(jobsets.objects), None)
                self._pods.note(pods)
                self._was_there = self._was_there or bool(jobsets.objects or jobsets.gone or pods.objects or pods.gone)
                self._jobs = jobs.objects
                self._events = tuple(event for event in events.objects if self._is_about(event))
                self._follow_more()
                self._is_known.set()
                self._changed.set()

    def _is_about(self, event: Object) -> bool:
        name = str((event.get("involvedObject") or {}).get("name", ""))
        return name == self._target.name or name.startswith(f"{self._target.name}-")

    def _follow_more(self) -> None:
        """What is known only once the JobSet is: which nodes may be its, and whose queue it stands in."""
        if self._raw_jobset is None or "around" in self._tasks:
            return
        for job in self._node_groups:
            self._begin(f"nodes {job}", self._unless_forbidden(self._follow_nodes(self._raw_jobset, job)))
        self._begin("around", self._unless_forbidden(self._look_around()))
        found = read_jobset(self._raw_jobset)
        if found.queue is not None:
            self._begin("workload", self._unless_forbidden(self._follow_workload(found.uid)))

    async def _unless_forbidden(self, work: Coroutine[Any, Any, None]) -> None:
        """Without this permission, or this type, less is known; nothing else fails."""
        try:
            await work
        except (Forbidden, NotFound) as exc:
            logger.warning("%s Without it, less can be said of what the job waits for.", exc)
            self._knows_nodes.set()
            await asyncio.Event().wait()

    @property
    def _node_groups(self) -> tuple[str, ...]:
        """Whose nodes are watched: those that hosts may be on, and those of helpers."""
        return ("", *([self._target.helpers.job] if self._target.helpers else []))

    async def _follow_nodes(self, jobset: Object, job: str) -> None:
        chosen = Selection(resource=NODES, labels=node_labels(jobset, job))
        async with aclosing(self._cluster.watch(chosen)) as watching:
            async for snapshot in watching:
                known = self._nodes.get(job, {})
                gone = {name: node.lost() for name, node in known.items() if self._pods.is_on(name)}
                self._nodes[job] = {**gone, **read_nodes(snapshot.objects, jobset, job)}
                if len(self._nodes) == len(self._node_groups):
                    self._knows_nodes.set()
                self._changed.set()

    async def _follow_workload(self, uid: str) -> None:
        """All of the namespace: what stands before ours in its queue is told too."""
        chosen = Selection(resource=WORKLOADS, namespace=self._target.namespace)
        async with aclosing(self._cluster.watch(chosen)) as watching:
            async for snapshot in watching:
                own = [found for found in snapshot.objects if is_workload_of(found, uid)]
                self._workload = read_workload(own[0], snapshot.objects) if own else None
                self._changed.set()

    async def _look_around(self) -> None:
        """Who is on nodes like ours, as long as something of ours has no node."""
        await self._knows_nodes.wait()
        while True:
            if self._pods.is_waiting_for_node:
                pods = await self._others()
                taken = holders(pod for pod in pods if not self._pods.has(pod))
                ours = {node for nodes in self._nodes.values() for node in nodes}
                self._taken = {node: who for node, who in taken.items() if node in ours}
                self._changed.set()
            await asyncio.sleep(AROUND_SECONDS if self._pods.is_waiting_for_node else TICK_SECONDS)

    async def _others(self) -> tuple[Object, ...]:
        try:
            return await self._cluster.list_all(Selection(resource=PODS))
        except Forbidden:
            return await self._cluster.list_all(Selection(resource=PODS, namespace=self._target.namespace))

    async def _look_at_output(self) -> None:
        while True:
            before = self._outputs
            await self._read_output()
            if self._outputs != before:
                self._changed.set()
            await asyncio.sleep(self._look_seconds)

    async def _read_output(self) -> None:
        ended = self._pods.ended
        patience = OUTAGE_SECONDS if self._has_read else 0.0
        self._outputs = await outlast(lambda: asyncio.to_thread(self._output.look), patience)
        self._has_read = True
        self._looked_at = ended
