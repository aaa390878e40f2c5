"""A fake of Google's Container API: node pools by REST on loopback, whose nodes come into being where there are any.

    with container.running(machines=cluster.kubelet) as google:
        google.add_cluster("projects/p/locations/us-east5/clusters/c", zones=("us-east5-a", "us-east5-b"))
        google.dry(zone="us-east5-a")                          # no capacity there
        …                                                      # with google.environment set

It answers as `google.cloud.container_v1` asks and expects, refuses what Google refuses (`container_rules`), allows one
operation per cluster at a time, and ends them with an error where `container_world` says so. Without `machines` pools
have no nodes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from container_pools import IsAwaited, Machines, NoMachines, Pool, Pools
from container_server import Request, Server, Trouble
from container_world import Dry, Failure, World
from google.cloud.container_v1 import Cluster, NodePool

if TYPE_CHECKING:
    import pytest

OVERRIDE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER"


class Google:
    """The fake as a test sees it. url: what the override is set to. world: all that a test can say of it."""

    def __init__(self, server: Server) -> None:
        self._server, self._pools = server, server.pools
        self.world: World = server.pools.world
        self.url = f"http://127.0.0.1:{server.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to know to take the fake for Google."""
        return {OVERRIDE: self.url}

    @property
    def asked(self) -> list[Request]:
        """All requests so far."""
        return list(self._server.asked)

    @property
    def errors(self) -> list[str]:
        """What went wrong where nodes are made; empty at the end of a good test."""
        return list(self._pools.clock.errors)

    @property
    def pools(self) -> dict[str, NodePool]:
        """All pools by their full name, as the API has them."""
        with self._pools.clock.lock:
            return {name: NodePool(pool.message) for name, pool in self._pools.all.items()}

    def nodes_of(self, pool: str) -> list[str]:
        """The names of a pool's nodes; `pool` is its full name, or the end of it."""
        with self._pools.clock.lock:
            return list(self._pool(pool).nodes)

    def add_cluster(
        self, name: str, zones: tuple[str, ...] = (), endpoint: str = "", authority: bytes = b"", **more: Any
    ) -> None:
        """A cluster that is RUNNING. zones: where it may have nodes, by default its own, or three of its region.

        endpoint, authority: host and port of its API server, and the certificate that it is known by (PEM).
        """
        location, short = name.split("/")[3], name.rpartition("/")[2]
        is_zonal = location.count("-") == 2
        places = zones or ((location,) if is_zonal else tuple(f"{location}-{letter}" for letter in "abc"))
        cluster = Cluster(
            name=short,
            location=location,
            locations=places,
            status=Cluster.Status.RUNNING,
            endpoint=endpoint,
            self_link=f"https://container.googleapis.com/v1/{name}",
            current_master_version="1.34.3-gke.1318000",
            master_auth={"cluster_ca_certificate": base64.b64encode(authority).decode()},
            **more,
        )
        with self._pools.clock.lock:
            self._pools.clusters[name] = cluster

    def add_pool(self, cluster: str, pool: NodePool) -> None:
        """A pool that is there without anybody having asked us: somebody else's, or in ERROR; RUNNING it has nodes."""
        with self._pools.clock.lock:
            self._pools.put(cluster, pool)

    def dry(self, **where: Any) -> Dry:
        """No capacity; see `Dry`. End it by `wet`."""
        dry = Dry(**where)
        with self._pools.clock.lock:
            self.world.dry.append(dry)
        return dry

    def wet(self) -> None:
        """There is capacity everywhere again."""
        with self._pools.clock.lock:
            self.world.dry.clear()

    def fail(self, code: str, condition: str, message: str, machine: str = "*") -> None:
        """The next operation that makes a pool of such machines ends with this error, and its pool in ERROR."""
        with self._pools.clock.lock:
            failure = Failure(code=code, condition=condition, message=message)
            self.world.failures.setdefault(machine, []).append(failure)

    def reclaim(self, pool: str) -> None:
        """Take a pool's spot machines back; Google makes the slice again as a whole once it can."""
        with self._pools.clock.lock:
            self._pools.reclaim(self._pool(pool).name)

    @contextmanager
    def trouble(self, **how: Any) -> Iterator[Trouble]:
        """Requests go wrong in the block; see `Trouble`."""
        trouble = Trouble(**{"strikes": lambda request: True, **how})
        self._server.troubles.append(trouble)
        try:
            yield trouble
        finally:
            self._server.troubles.remove(trouble)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What is under way in the block stays under way, and nothing new is done; requests are answered."""
        clock = self._pools.clock
        with clock.lock:
            clock.is_paused = True
        try:
            yield
        finally:
            clock.is_paused = False

    def _pool(self, name: str) -> Pool:
        found = [pool for full, pool in self._pools.all.items() if full == name or full.endswith(f"/{name}")]
        assert found, f"there is no pool {name}"
        return found[0]


@contextmanager
def running(
    machines: Machines | None = None,
    world: World | None = None,
    port: int = 0,
    is_awaited: IsAwaited = lambda node: True,
) -> Iterator[Google]:
    """The fake; gone at the end.

    is_awaited: whether a pod waits for a node such as this; pools that are autoscaled begin without nodes, and get them
    once one does.
    """
    with Server(Pools(world or World(), machines or NoMachines(), is_awaited), port) as server:
        yield Google(server)


@contextmanager
def taken_for_google(monkeypatch: pytest.MonkeyPatch, *clusters: str) -> Iterator[Google]:
    """The fake, which has these clusters; this process and its children take it for Google."""
    with running() as fake:
        for cluster in clusters:
            fake.add_cluster(cluster)
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        yield fake
