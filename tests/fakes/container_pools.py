"""What becomes of node pools: they are made, changed and deleted, machines are taken back, and nodes come and go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from container_clock import Clock
from container_errors import Refused, exists, invalid, not_found
from container_nodes import Node, nodes
from container_operations import API, Operations, condition
from container_rules import doom, refusal
from container_world import Failure, World, wanted
from google.cloud.container_v1 import Cluster, NodePool, Operation

Status = NodePool.Status
Kind = Operation.Type


class Machines(Protocol):
    """Who makes nodes of what a pool should have. The process kubelet of `tests/cluster` does."""

    def add_nodes(self, nodes: Iterable[Node]) -> object:
        """Make them; they take pods soon after."""

    def delete_nodes(self, *names: str) -> None:
        """They are gone, with what runs on them."""

    def reclaim_spot(self, *names: str) -> None:
        """They are taken back, after a notice."""


IsAwaited = Callable[[Node], bool]  # whether a pod waits for such a node, as an autoscaler asks; it may take its time


class NoMachines:
    """Pools without nodes, for tests that have no Kubernetes."""

    def add_nodes(self, nodes: Iterable[Node]) -> None:
        return

    def delete_nodes(self, *names: str) -> None:
        return

    def reclaim_spot(self, *names: str) -> None:
        return


@dataclass(kw_only=True)
class Pool:
    """A pool as it is. size: how many nodes it should have. nodes: the names of those that it has."""

    name: str
    message: NodePool
    size: int = 0
    nodes: list[str] = field(default_factory=list)

    @property
    def cluster(self) -> str:
        return self.name.partition("/nodePools/")[0]

    @property
    def project(self) -> str:
        return self.name.split("/")[1]

    def fail(self, lack: Failure, status: NodePool.Status = Status.ERROR) -> None:
        self.message.status, self.message.status_message = status, lack.message
        self.message.conditions = [condition(lack)]


class Pools:
    """All pools of all clusters. Whoever asks holds the clock's lock."""

    def __init__(self, world: World, machines: Machines, is_awaited: IsAwaited) -> None:
        self.world, self._machines, self._is_awaited = world, machines, is_awaited
        self.clock = Clock()
        self.operations = Operations(self.clock, world)
        self.clusters: dict[str, Cluster] = {}
        self.all: dict[str, Pool] = {}

    # What is there

    def described(self, cluster: str) -> Cluster:
        """The cluster with its pools."""
        found = Cluster(self._cluster(cluster))
        found.node_pools = self.of(cluster)
        return found

    def of(self, cluster: str) -> list[NodePool]:
        self._cluster(cluster)
        return [pool.message for pool in self.all.values() if pool.cluster == cluster]

    def get(self, name: str) -> Pool:
        self._cluster(name.partition("/nodePools/")[0])
        if name not in self.all:
            raise not_found(name)
        return self.all[name]

    def _cluster(self, name: str) -> Cluster:
        if name not in self.clusters:
            raise not_found(name)
        return self.clusters[name]

    def put(self, cluster: str, message: NodePool) -> None:
        """A pool that is there without a request of anybody's."""
        name = f"{cluster}/nodePools/{message.name}"
        pool = self.all[name] = Pool(name=name, message=message, size=wanted(message))
        message.locations = message.locations or self._cluster(cluster).locations
        if message.status == Status.RUNNING:
            self._serve(pool)

    # What is asked for

    def create(self, cluster: str, asked: NodePool) -> Operation:
        """A pool that is PROVISIONING from now on."""
        name, zones = f"{cluster}/nodePools/{asked.name}", tuple(self._cluster(cluster).locations)
        if name in self.all:
            raise exists(name)
        self.operations.check_idle(cluster)
        asked.locations = asked.locations or zones
        self._check(asked, zones)
        if self.world.is_quota_early and (lack := self._missing_quota(asked)):
            raise Refused(lack.code, lack.message, http=403)
        asked.status, asked.status_message, asked.conditions = Status.PROVISIONING, "", []
        asked.self_link = f"{API}/{name}"
        pool = self.all[name] = Pool(name=name, message=asked, size=wanted(asked))
        return self.operations.begin(Kind.CREATE_NODE_POOL, name, self.world.delays.making, lambda: self._made(pool))

    def delete(self, name: str) -> Operation:
        """A pool that is STOPPING from now on, and without nodes."""
        pool = self.get(name)
        self.operations.check_idle(pool.cluster)
        pool.message.status = Status.STOPPING
        gone, pool.nodes, pool.size = pool.nodes, [], 0
        if gone:
            self.clock.soon(self._machines.delete_nodes, *gone)
        seconds = self.world.delays.deleting
        return self.operations.begin(Kind.DELETE_NODE_POOL, name, seconds, lambda: self._deleted(name))

    def resize(self, name: str, count: int) -> Operation:
        """So many nodes in each of a pool's zones."""

        def change(pool: NodePool) -> None:
            pool.initial_node_count = count

        pool = self.get(name)
        self._changed(name, change)
        pool.message.status = Status.RECONCILING
        seconds = self.world.delays.resizing
        return self.operations.begin(Kind.SET_NODE_POOL_SIZE, name, seconds, lambda: self._resized(pool, count))

    def change(self, name: str, change: Callable[[NodePool], None]) -> Operation:
        """Something else of a pool is other; it must still be one that may be made."""
        pool = self.get(name)
        self._changed(name, change)
        seconds = self.world.delays.resizing
        return self.operations.begin(Kind.UPDATE_CLUSTER, name, seconds, lambda: change(pool.message))

    def _changed(self, name: str, change: Callable[[NodePool], None]) -> None:
        """Refuses what the pool would be then."""
        pool = self.get(name)
        self.operations.check_idle(pool.cluster)
        trial = NodePool(pool.message)
        change(trial)
        self._check(trial, tuple(self._cluster(pool.cluster).locations))

    def _check(self, asked: NodePool, zones: tuple[str, ...]) -> None:
        if said := refusal(asked, zones, self.world):
            raise invalid(said)

    # What becomes of it

    def _made(self, pool: Pool) -> Failure | None:
        lack = (
            doom(pool.message) or self._missing_quota(pool.message, pool) or (self._lack(pool) if pool.size else None)
        )
        if lack:
            pool.fail(lack)
            return lack
        self._serve(pool)
        return None

    def _deleted(self, name: str) -> None:
        del self.all[name]

    def _resized(self, pool: Pool, count: int) -> Failure | None:
        size = count * len(pool.message.locations)
        lack = self._lack(pool) if size > pool.size else None
        if lack:
            pool.fail(lack, Status.RUNNING_WITH_ERROR)
            return lack
        pool.size, pool.message.status, pool.message.initial_node_count = size, Status.RUNNING, count
        gone, pool.nodes = pool.nodes[size:], pool.nodes[:size]
        if gone:
            self.clock.soon(self._machines.delete_nodes, *gone)
        self._grow(pool)
        return None

    def _serve(self, pool: Pool) -> None:
        pool.message.status = Status.RUNNING
        self._grow(pool)
        if pool.message.autoscaling.enabled and not pool.size:
            self._look(pool)

    def _look(self, pool: Pool) -> None:
        """Google's autoscaler looks whether pods wait for nodes of an empty pool."""
        if self._is(pool, Status.RUNNING) and not pool.size:
            (node,) = nodes(pool.message, pool.project, pool.cluster.rpartition("/")[2], 1)
            self.clock.soon(self._scale_up, pool, node)

    def _scale_up(self, pool: Pool, node: Node) -> None:
        """It gets all of its nodes at once, once pods wait for them and there is capacity."""
        is_awaited = self._is_awaited(node)
        with self.clock.lock:
            if not self._is(pool, Status.RUNNING) or pool.size:
                return
            if is_awaited and not self._lack(pool):
                scaling = pool.message.autoscaling
                pool.size = int(scaling.max_node_count or scaling.total_max_node_count)
                self._grow(pool)
            else:
                self.clock.after(self.world.delays.repair, lambda: self._look(pool))

    def _is(self, pool: Pool, status: NodePool.Status) -> bool:
        """Whether it is still there, and so."""
        return self.all.get(pool.name) is pool and pool.message.status == status

    def reclaim(self, name: str) -> None:
        """Machines are taken back: the slice goes as a whole, and is made again once there is capacity."""
        pool = self.get(name)
        gone, pool.nodes = pool.nodes, []
        pool.message.status = Status.RECONCILING
        self.clock.soon(self._machines.reclaim_spot, *gone)
        until = time.monotonic() + self.world.delays.patience
        self.clock.after(self.world.delays.repair, lambda: self._repair(pool, until))

    def _repair(self, pool: Pool, until: float) -> None:
        if not self._is(pool, Status.RECONCILING):
            return
        lack = self._lack(pool)
        if lack is None:
            pool.message.status = Status.RUNNING
            self._grow(pool)
        elif time.monotonic() < until:
            self.clock.after(self.world.delays.repair, lambda: self._repair(pool, until))
        else:
            pool.fail(lack)

    def _grow(self, pool: Pool) -> None:
        """The nodes that are missing come in a moment."""
        self.clock.after(self.world.delays.nodes, lambda: self._add(pool))

    def _add(self, pool: Pool) -> None:
        missing = pool.size - len(pool.nodes)
        if not self._is(pool, Status.RUNNING) or missing < 1:
            return
        made = nodes(pool.message, pool.project, pool.cluster.rpartition("/")[2], missing)
        pool.nodes += [str(node["metadata"]["name"]) for node in made]
        self.clock.soon(self._machines.add_nodes, made)

    def _lack(self, pool: Pool) -> Failure | None:
        return self.world.lack(pool.message, pool.project)

    def _missing_quota(self, asked: NodePool, itself: Pool | None = None) -> Failure | None:
        idle = (Status.ERROR, Status.STOPPING)
        others = [one.message for one in self.all.values() if one is not itself and one.message.status not in idle]
        return self.world.missing_quota(asked, others)
