"""What do the hosts of an attempt write? Live from their pods, and from the job's folder once those are gone.

A host's program writes the same lines to both. A line is given once: what came over the API server before a pod went
is passed over in the folder.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import LogLine
from prefect_tpu.infra.backends.jobset_facts import PodFacts
from prefect_tpu.infra.backends.jobset_plan import Target
from prefect_tpu.infra.backends.jobset_reading import COMPLETION_INDEX, JOB_INDEX, read_jobset, read_pod
from prefect_tpu.infra.gcp.errors import NotFound, Refused
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.pod_logs import LogQuery
from prefect_tpu.infra.gcp.resources import JOBSETS, PODS, Selection
from prefect_tpu.infra.storage import Storage, open_storage

LOOK_SECONDS = 1.0  # how often it is looked whether a pod has begun
FRESH_SECONDS = 0.2  # what was just asked is not asked again
REMEMBERED_LINES = 50  # by which a place in a log is found again


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which lines of each host: `tail` of those that are there, and those that come with `follow`."""

    follow: bool
    tail: int | None


@dataclass(slots=True)
class Given:
    """What was given of one host so far."""

    count: int = 0
    last: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED_LINES))

    def note(self, text: str) -> str:
        self.count += 1
        self.last.append(text)
        return text


def rest(lines: Sequence[str], given: Given, tail: int | None) -> list[str]:
    """The lines of a whole log that were not given yet.

    Where all lines were asked for, as many as were given are passed over; with a `tail` nobody knows how many came
    before it, so the place is found by the last lines that were given.
    """
    if given.count == 0:
        return list(lines if tail is None else lines[max(0, len(lines) - tail) :])
    if tail is None:
        return list(lines[given.count :])
    last = list(given.last)
    for end in range(len(lines), len(last) - 1, -1):
        if list(lines[end - len(last) : end]) == last:
            return list(lines[end:])
    return []


async def read(
    cluster: Kubernetes, target: Target, hosts: Sequence[int], wanted: Wanted
) -> AsyncGenerator[LogLine, None]:
    """Of several hosts side by side; each host's lines in its order."""
    queue: asyncio.Queue[LogLine | None] = asyncio.Queue(maxsize=1_000)
    reader = _Reader(cluster, target, hosts, wanted)

    async def read_on(host: int) -> None:
        try:
            async with aclosing(reader.lines(host)) as lines:
                async for text in lines:
                    await queue.put(LogLine(host=host, text=text))
        finally:
            await queue.put(None)

    tasks = [asyncio.create_task(read_on(host)) for host in hosts]
    try:
        left = len(tasks)
        while left:
            line = await queue.get()
            if line is None:
                left -= 1
            else:
                yield line
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Reader:
    def __init__(self, cluster: Kubernetes, target: Target, hosts: Sequence[int], wanted: Wanted) -> None:
        self._cluster, self._target, self._wanted = cluster, target, wanted
        self._storage = open_storage(target.output)
        self._selection = _pods_of(target, hosts)
        self._known: Sequence[PodFacts] = ()
        self._asked, self._asking = -math.inf, asyncio.Lock()

    async def lines(self, host: int) -> AsyncGenerator[str, None]:
        given = Given()
        while True:
            pod = await self._pod(host)
            if pod is not None and pod.has_begun:
                async with aclosing(self._of_pod(host, pod, given)) as lines:
                    async for text in lines:
                        yield given.note(text)
                if not self._wanted.follow or await self._has_given_all(host, pod):
                    return
            elif await self._is_over(pod):
                whole = await asyncio.to_thread(read_log, self._storage, self._target.attempt, host)
                for text in rest(whole, given, self._wanted.tail):
                    yield given.note(text)
                return
            elif not self._wanted.follow:
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _of_pod(self, host: int, pod: PodFacts, given: Given) -> AsyncGenerator[str, None]:
        """Lines over the API server; none where the pod went meanwhile.

        A second time it is read from its beginning. After a tail nobody knows how far that is: what is left is then
        read in the folder.
        """
        if given.count and self._wanted.tail is not None:
            return
        to_skip = given.count
        query = LogQuery(follow=self._wanted.follow, tail=self._wanted.tail)
        has_ended = partial(self._has_container_ended, host, pod)
        lines = self._cluster.logs(self._target.namespace, pod.name, query, has_ended)
        try:
            async for text in lines:
                if to_skip > 0:
                    to_skip -= 1
                else:
                    yield text
        except (NotFound, Refused):  # gone, or its container was not there yet
            return
        finally:
            await lines.aclose()

    async def _has_container_ended(self, host: int, pod: PodFacts) -> bool:
        """Whether its container has ended or is gone; that is told a moment after its log has come to its end."""
        if not self._wanted.follow:
            return True
        now = await self._pod(host)
        if now is not None and now.uid == pod.uid and now.container.is_running:
            await asyncio.sleep(LOOK_SECONDS)
            return False
        return True

    async def _has_given_all(self, host: int, before: PodFacts) -> bool:
        """Whether the pod is still there and its container has ended: then the API server gave all of it."""
        now = await self._pod(host)
        return now is not None and now.uid == before.uid and now.container.has_ended

    async def _is_over(self, pod: PodFacts | None) -> bool:
        """Whether no pod of this host will write any more."""
        if pod is not None and not pod.has_ended:
            return False
        found = await self._cluster.find(JOBSETS, self._target.name, self._target.namespace)
        if found is None:
            started = layout.started(self._target.attempt, 0)
            return not self._wanted.follow or await asyncio.to_thread(self._storage.changed, started) is not None
        return read_jobset(found).begins_nothing

    async def _pod(self, host: int) -> PodFacts | None:
        pods = [pod for pod in await self._pods() if pod.host == host]
        return max(pods, key=lambda pod: pod.created_at, default=None)

    async def _pods(self) -> Sequence[PodFacts]:
        """Of all hosts that are read; one question for all of them, however many ask within a moment."""
        async with self._asking:
            if time.monotonic() - self._asked > FRESH_SECONDS:
                found = await self._cluster.list_all(self._selection)
                target = self._target
                read = (read_pod(pod, target.hosts_per_slice, target.helpers) for pod in found)
                self._known = [pod for pod in read if not pod.is_helper]
                self._asked = time.monotonic()
            return self._known


def _pods_of(target: Target, hosts: Sequence[int]) -> Selection:
    """The pods of these hosts: of one alone, else of the whole attempt."""
    labels = target.selector
    if len(hosts) == 1:
        index, host = divmod(hosts[0], target.hosts_per_slice)
        labels = f"{labels},{JOB_INDEX}={index},{COMPLETION_INDEX}={host}"
    return Selection(resource=PODS, namespace=target.namespace, labels=labels)


def read_log(storage: Storage, attempt: int, host: int) -> list[str]:
    """The lines of a host's log in the job's folder, over all its parts."""
    parts: list[bytes] = []
    while (raw := storage.get(layout.log_part(attempt, host, len(parts)))) is not None:
        parts.append(raw)
    text = b"".join(parts).decode(errors="replace")
    return text.removesuffix("\n").split("\n") if text else []
