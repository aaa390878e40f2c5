"""What becomes of node pools: requests start operations, operations take their time, and nodes come and go."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from container_errors import Refused, busy, exists, invalid, not_found
from container_nodes import Node, nodes
from container_rules import doom, refusal
from container_world import Failure, World, wanted
from google.cloud.container_v1 import Cluster, NodePool, Operation, StatusCondition
from google.rpc.code_pb2 import Code

_TICK_SECONDS = 0.02
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


class NoMachines:
    """Nobody: pools without nodes, for tests that have no Kubernetes."""

    def add_nodes(self, nodes: Iterable[Node]) -> None:
        return

    def delete_nodes(self, *names: str) -> None:
        return

    def reclaim_spot(self, *names: str) -> None:
        return


@dataclass(kw_only=True)
class Pool:
    """A pool as it is; `nodes` are the names of those that it has, `size` how many it should have."""

    name: str
    cluster: str
    message: NodePool
    size: int = 0
    nodes: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Work:
    """An operation under way, or over. `due`: when it runs, then when it is over. `end`: what happens then."""

    cluster: str
    message: Operation
    due: float
    seconds: float
    end: Callable[[], Failure | None]


class Engine:
    """The state of everything, behind one lock."""

    def __init__(self, world: World, machines: Machines) -> None:
        self.world, self.machines = world, machines
        self.lock = threading.RLock()
        self.clusters: dict[str, Cluster] = {}
        self.pools: dict[str, Pool] = {}
        self.work: dict[str, Work] = {}
        self.errors: list[str] = []
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._acts: list[Callable[[], object]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake-container", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    # Asked by requests

    def cluster(self, name: str) -> Cluster:
        if name not in self.clusters:
            raise not_found(name)
        return self.clusters[name]

    def described(self, name: str) -> Cluster:
        """The cluster with its pools."""
        found = Cluster(self.cluster(name))
        found.node_pools = self.pools_of(name)
        return found

    def pool(self, name: str) -> Pool:
        self.cluster(name.partition("/nodePools/")[0])
        if name not in self.pools:
            raise not_found(name)
        return self.pools[name]

    def pools_of(self, cluster: str) -> list[NodePool]:
        self.cluster(cluster)
        return [pool.message for pool in self.pools.values() if pool.cluster == cluster]

    def create(self, cluster: str, asked: NodePool) -> Operation:
        """A pool that is PROVISIONING from now on."""
        found, name = self.cluster(cluster), f"{cluster}/nodePools/{asked.name}"
        if name in self.pools:
            raise exists(name)
        self._check_idle(cluster)
        zones = tuple(found.locations)
        if not asked.locations:
            asked.locations = zones
        if said := refusal(asked, zones, self.world):
            raise invalid(said)
        if self.world.is_quota_early and (lack := self._missing_quota(asked, name)):
            raise Refused(lack.code, lack.message, http=403)
        asked.status, asked.status_message, asked.conditions = Status.PROVISIONING, "", []
        asked.self_link = f"https://container.googleapis.com/v1/{name}"
        pool = self.pools[name] = Pool(name=name, cluster=cluster, message=asked, size=wanted(asked))
        return self._begin(Kind.CREATE_NODE_POOL, pool, self.world.delays.making, lambda: self._made(pool))

    def delete(self, name: str) -> Operation:
        pool = self.pool(name)
        self._check_idle(pool.cluster)
        pool.message.status = Status.STOPPING
        self._lose(pool)
        return self._begin(Kind.DELETE_NODE_POOL, pool, self.world.delays.deleting, lambda: self._deleted(pool))

    def resize(self, name: str, count: int) -> Operation:
        """So many nodes in each of its zones."""
        pool = self.pool(name)
        self._check_idle(pool.cluster)
        trial = NodePool(pool.message)
        trial.initial_node_count = count
        if said := refusal(trial, tuple(self.cluster(pool.cluster).locations), self.world):
            raise invalid(said)
        pool.message.status = Status.RECONCILING
        size = wanted(trial)
        return self._begin(Kind.SET_NODE_POOL_SIZE, pool, self.world.delays.resizing, lambda: self._resized(pool, size))

    def change(self, name: str, change: Callable[[NodePool], None]) -> Operation:
        """Something else of a pool is other; it must still be one that may be made."""
        pool = self.pool(name)
        self._check_idle(pool.cluster)
        trial = NodePool(pool.message)
        change(trial)
        if said := refusal(trial, tuple(self.cluster(pool.cluster).locations), self.world):
            raise invalid(said)

        def end() -> None:
            change(pool.message)

        return self._begin(Kind.UPDATE_CLUSTER, pool, self.world.delays.resizing, end)

    def _check_idle(self, cluster: str) -> None:
        for work in self.work.values():
            if work.cluster == cluster and work.message.status != Operation.Status.DONE:
                raise busy(work.message.name)

    def _missing_quota(self, asked: NodePool, name: str) -> Failure | None:
        others = [pool.message for pool in self.pools.values() if pool.name != name and _is_used(pool)]
        return self.world.missing_quota(asked, others)

    # What becomes of it

    def _begin(self, kind: Any, pool: Pool, seconds: float, end: Callable[[], Failure | None]) -> Operation:
        place = pool.cluster.rpartition("/clusters/")[0]
        name = f"operation-{time.time_ns() // 1_000_000}-{uuid.uuid4().hex[:8]}"
        message = Operation(
            name=name,
            operation_type=kind,
            status=Operation.Status.PENDING,
            location=place.rpartition("/")[2],
            zone=place.rpartition("/")[2],
            start_time=_now(),
            target_link=f"https://container.googleapis.com/v1/{pool.name}",
            self_link=f"https://container.googleapis.com/v1/{place}/operations/{name}",
        )
        due = time.monotonic() + self.world.delays.pending
        self.work[f"{place}/operations/{name}"] = Work(
            cluster=pool.cluster, message=message, due=due, seconds=seconds, end=end
        )
        return message

    def _made(self, pool: Pool) -> Failure | None:
        lack = doom(pool.message) or self._missing_quota(pool.message, pool.name)
        lack = lack or (self.world.lack(pool.message, _project(pool)) if pool.size else None)
        if lack:
            _break(pool, lack)
            return lack
        pool.message.status = Status.RUNNING
        self._grow(pool)
        if not pool.size and pool.message.autoscaling.enabled:
            self._after(self.world.delays.repair, lambda: self._scale_up(pool))
        return None

    def _deleted(self, pool: Pool) -> None:
        self.pools.pop(pool.name, None)

    def _resized(self, pool: Pool, size: int) -> Failure | None:
        lack = self.world.lack(pool.message, _project(pool)) if size > pool.size else None
        if lack:
            _break(pool, lack, Status.RUNNING_WITH_ERROR)
            return lack
        pool.size, pool.message.status = size, Status.RUNNING
        while len(pool.nodes) > size:
            self._now(self.machines.delete_nodes, pool.nodes.pop())
        self._grow(pool)
        return None

    def _scale_up(self, pool: Pool) -> None:
        """Google's autoscaler: an empty pool gets its nodes once there is capacity, all at once."""
        if self.pools.get(pool.name) is not pool or pool.size or pool.message.status != Status.RUNNING:
            return
        if self.world.lack(pool.message, _project(pool)):
            self._after(self.world.delays.repair, lambda: self._scale_up(pool))
            return
        pool.size = int(pool.message.autoscaling.max_node_count or pool.message.autoscaling.total_max_node_count)
        self._grow(pool)

    def reclaim(self, name: str) -> None:
        """Spot machines are taken back: the slice goes as a whole, and is made again once there is capacity."""
        with self.lock:
            pool = self.pool(name)
            gone, pool.nodes = pool.nodes, []
            pool.message.status = Status.RECONCILING
            if gone:
                self._now(self.machines.reclaim_spot, *gone)
            patience = time.monotonic() + self.world.delays.patience
            self._after(self.world.delays.repair, lambda: self._repair(pool, patience))

    def _repair(self, pool: Pool, patience: float) -> None:
        if self.pools.get(pool.name) is not pool or pool.message.status != Status.RECONCILING:
            return
        lack = self.world.lack(pool.message, _project(pool))
        if lack is None:
            pool.message.status, pool.message.conditions = Status.RUNNING, []
            self._grow(pool)
        elif time.monotonic() >= patience:
            _break(pool, lack)
        else:
            self._after(self.world.delays.repair, lambda: self._repair(pool, patience))

    def _grow(self, pool: Pool) -> None:
        """The nodes that are missing come in a moment."""
        self._after(self.world.delays.nodes, lambda: self._add(pool))

    def _add(self, pool: Pool) -> None:
        missing = pool.size - len(pool.nodes)
        if self.pools.get(pool.name) is not pool or pool.message.status != Status.RUNNING or missing < 1:
            return
        made = nodes(pool.message, _project(pool), pool.cluster.rpartition("/")[2], missing)
        pool.nodes += [node["metadata"]["name"] for node in made]
        self._now(self.machines.add_nodes, made)

    def _lose(self, pool: Pool) -> None:
        gone, pool.nodes, pool.size = pool.nodes, [], 0
        if gone:
            self._now(self.machines.delete_nodes, *gone)

    # Time

    def _after(self, seconds: float, what: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, what))

    def _now(self, act: Callable[..., object], *what: Any) -> None:
        """Outside the lock and in order: machines take longer than requests may wait."""
        self._acts.append(lambda: act(*what))

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_SECONDS):
            with self.lock:
                self._tick(time.monotonic())
                acts, self._acts = self._acts, []
            for act in acts:
                try:
                    act()
                except Exception as error:  # the fake lives on; whoever ends it looks
                    self.errors.append(repr(error))

    def _tick(self, now: float) -> None:
        for work in list(self.work.values()):
            if now >= work.due and work.message.status == Operation.Status.PENDING:
                work.message.status, work.due = Operation.Status.RUNNING, work.due + work.seconds
            if now >= work.due and work.message.status == Operation.Status.RUNNING:
                _finish(work.message, work.end())
        due = [what for at, what in self._later if at <= now]
        self._later = [(at, what) for at, what in self._later if at > now]
        for what in due:
            what()


def _is_used(pool: Pool) -> bool:
    return pool.message.status not in (Status.ERROR, Status.STOPPING)


def _project(pool: Pool) -> str:
    return pool.cluster.split("/")[1]


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _break(pool: Pool, lack: Failure, status: Any = Status.ERROR) -> None:
    pool.message.status, pool.message.status_message = status, lack.message
    condition = StatusCondition(
        code=StatusCondition.Code[lack.condition], message=lack.message, canonical_code=Code.Value(lack.code)
    )
    pool.message.conditions = [condition]


def _finish(message: Operation, lack: Failure | None) -> None:
    message.status, message.end_time = Operation.Status.DONE, _now()
    if lack:
        message.status_message = message.detail = lack.message
        message.error = {"code": Code.Value(lack.code), "message": lack.message}
        message.nodepool_conditions = [
            StatusCondition(
                code=StatusCondition.Code[lack.condition], message=lack.message, canonical_code=Code.Value(lack.code)
            )
        ]
