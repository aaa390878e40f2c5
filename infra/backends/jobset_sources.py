"""Where does whoever follows attempts in a namespace learn what happens there? Watches, for one attempt or for many.

One that is followed alone has watches of its own objects. A process that drives many jobs has one watch of each type,
whatever their number, and each attempt hears of its own objects.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator

from prefect_tpu.infra.backends import jobset_slim as slim
from prefect_tpu.infra.backends.jobset_nodes import NodeGroups
from prefect_tpu.infra.backends.jobset_plan import Target
from prefect_tpu.infra.backends.jobset_reading import WORKLOAD_OF, holder_of
from prefect_tpu.infra.gcp.collection import Collection, Object
from prefect_tpu.infra.gcp.errors import Forbidden, NotFound
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.ownership import IDENTITY, MANAGED_BY, OURS
from prefect_tpu.infra.gcp.resources import EVENTS, JOBS, JOBSETS, NODES, PODS, WORKLOADS, Selection, with_labels
from prefect_tpu.infra.gcp.sharing import shared

logger = logging.getLogger(__name__)
AROUND_SECONDS = 20.0  # how often it is looked, while something waits, who has the other slices


class Sources:
    """What tells of attempts in one namespace of a cluster.

    Args:
        cluster: stays open as long as this is.
        namespace: where the attempts are.
        selector: of the attempts' own objects.
    """

    def __init__(self, cluster: Kubernetes, namespace: str, selector: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        own = {"namespace": namespace, "labels": selector}
        self.jobsets = Collection(cluster, Selection(resource=JOBSETS, **own), plan_of, slim.jobset)
        self.jobs = Collection(cluster, Selection(resource=JOBS, **own), plan_of, slim.job)
        self.pods = Collection(cluster, Selection(resource=PODS, **own), plan_of, slim.pod)
        self.events = Collection(cluster, Selection(resource=EVENTS, namespace=namespace), attempts_of, slim.event)
        self.around = Around(cluster, namespace)
        self._nodes: dict[str, Collection] = {}
        self._groups: dict[str, NodeGroups] = {}
        self._workloads: Collection | None = None

    @property
    def is_over(self) -> bool:
        """Whether one of them tells nothing any more that is needed; what is only useful may be forbidden for good."""
        return any(each.is_over for each in (self.jobsets, self.jobs, self.pods, self.events))

    def nodes(self, labels: str = "") -> NodeGroups:
        """The nodes that have these labels, for whoever groups them."""
        if (found := self._nodes.get(labels)) is None or found.is_over:
            chosen = Selection(resource=NODES, labels=labels)
            self._nodes[labels] = Collection(self._cluster, chosen, keep=slim.node)
            self._groups[labels] = NodeGroups(self._nodes[labels])
        return self._groups[labels]

    def workloads(self) -> Collection:
        """All of the namespace, under "" and each under the uid of what it is of."""
        if self._workloads is None or self._workloads.is_over:
            chosen = Selection(resource=WORKLOADS, namespace=self._namespace)
            self._workloads = Collection(self._cluster, chosen, owners_of, slim.workload)
        return self._workloads

    async def close(self) -> None:
        """End all watches; they are told to end at once, also where whoever closes is cancelled meanwhile."""
        lasting = (self.jobsets, self.jobs, self.pods, self.events, *self._nodes.values())
        ending = [each.end() for each in (*lasting, *([self._workloads] if self._workloads else []))]
        await asyncio.gather(*ending, return_exceptions=True)


class SharedSources(Sources):
    """Of all attempts of ours in a namespace, with a connection that stays open until they are closed."""

    def __init__(self, cluster: Kubernetes, namespace: str) -> None:
        super().__init__(cluster, namespace, with_labels({MANAGED_BY: OURS}))

    def nodes(self, labels: str = "") -> NodeGroups:
        """All nodes are watched once: there may be as many selectors as there are jobs."""
        return super().nodes()

    async def all_nodes(self) -> tuple[Object, ...]:
        """All nodes as they are now. Raises `Forbidden` where they may not be seen."""
        self.nodes()
        watched = self._nodes[""]
        await watched.known()
        return watched.everything()

    @classmethod
    async def open(cls, name: str | None, namespace: str) -> SharedSources:
        return cls(await Kubernetes(name).__aenter__(), namespace)

    async def close(self) -> None:
        await super().close()
        await self._cluster.__aexit__()


async def sources_of(cluster: Kubernetes, target: Target) -> tuple[Sources, bool]:
    """What tells of an attempt, and whether others use it too: then it is not closed by whoever follows this one."""
    together = await shared_sources(cluster, target.cluster, target.namespace)
    return (Sources(cluster, target.namespace, target.selector), False) if together is None else (together, True)


async def shared_sources(cluster: Kubernetes, named: str | None, namespace: str) -> SharedSources | None:
    """What tells of all attempts of this process in a namespace; None where it drives a single job.

    named: how the cluster is asked for.
    """
    if (together := shared()) is None:
        return None
    key = ("sources", str(cluster.name), namespace)
    return await together.get(key, lambda: SharedSources.open(named, namespace))


async def pods_of(cluster: Kubernetes, target: Target) -> tuple[Object, ...]:
    """Those of an attempt that are there. Where its pods are watched with those of others, that none is left is asked.

    Of each that the watch tells of, what is remembered of pods.
    """
    if shared() is not None:
        sources, _ = await sources_of(cluster, target)
        if sources.pods.is_known and (seen := tuple(sources.pods.of(target.selector).values())):
            return seen
    return await cluster.list_all(Selection(resource=PODS, namespace=target.namespace, labels=target.selector))


class Around:
    """Who is on the nodes of a cluster: asked anew where the last answer is old, however many ask."""

    def __init__(self, cluster: Kubernetes, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._lock = asyncio.Lock()
        self._asked: float | None = None
        self._found: tuple[tuple[str, str, str], ...] = ()

    async def holders(self) -> tuple[tuple[str, str, str], ...]:
        """The node, the uid and the owner in words of each pod that keeps others away."""
        async with self._lock:
            now = time.monotonic()
            if self._asked is None or now - self._asked >= AROUND_SECONDS:
                self._found = tuple(_held(await self._pods()))
                self._asked = time.monotonic()
        return self._found

    async def _pods(self) -> tuple[Object, ...]:
        try:
            return await self._cluster.list_all(Selection(resource=PODS))
        except Forbidden:
            return await self._cluster.list_all(Selection(resource=PODS, namespace=self._namespace))


def _held(pods: tuple[Object, ...]) -> Iterator[tuple[str, str, str]]:
    for pod in pods:
        node, who = pod["spec"].get("nodeName"), holder_of(pod)
        if node and who:
            yield node, pod["metadata"]["uid"], who


def plan_of(found: Object) -> tuple[str, ...]:
    """The selector of the attempt that an object of ours is of."""
    labels = found["metadata"].get("labels") or {}
    return (with_labels({name: labels[name] for name in IDENTITY}),) if set(IDENTITY) <= labels.keys() else ()


def attempts_of(event: Object) -> tuple[str, ...]:
    """The names of the attempts whose objects an event may be about: `a-1` of the pod `a-1-host-0-0-x5`."""
    parts = str((event.get("involvedObject") or {}).get("name", "")).split("-")
    return tuple("-".join(parts[: end + 1]) for end, part in enumerate(parts) if end and part.isdecimal())


def owners_of(workload: Object) -> tuple[str, ...]:
    owner = (workload["metadata"].get("labels") or {}).get(WORKLOAD_OF)
    return ("",) if owner is None else ("", owner)


def tell_missing(error: Exception) -> bool:
    """Whether the error means that less is known, and nothing else fails: no permission, or no such type."""
    if not isinstance(error, Forbidden | NotFound):
        return False
    logger.warning("%s Without it, less can be said of what the job waits for.", error)
    return True
