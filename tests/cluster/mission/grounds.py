"""Where do the slices of a mission come from, and how are they taken back? Each way has its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from cluster import Cluster
from control_plane import ApiError
from played_pathways import IMAGES, add_pathways
from queues import KUEUE, QUEUE, make_queue
from world import NAMESPACE, World

FIRST_MACHINE, FIRST_CHIPS = "ct6e-standard-4t", "v6e-16:spot"
POOL_LABEL, CHIPS_LABEL = "cloud.google.com/gke-nodepool", "cloud.google.com/gke-tpu-accelerator"


class Ground(Protocol):
    """What a mission needs to know of the way. titles: by act."""

    titles: Mapping[str, str]

    def fields(self, world: World) -> Mapping[str, Any]:
        """Of the saved cluster."""
        ...

    def prepare(self, world: World) -> None:
        """Make what is there before anybody trains."""
        ...

    def seen(self, world: World, pool: str) -> str:
        """What is to be seen of the pool that an attempt runs in, beside its nodes."""
        ...

    def take_back(self, world: World, pool: str) -> None:
        """The slice of the first attempt goes, after a notice."""
        ...

    def give_again(self, world: World) -> None:
        """Called once it is gone."""
        ...

    def tidy(self, world: World) -> None:
        """Take away what was there before anybody trained."""
        ...


@dataclass(frozen=True, slots=True)
class MadePools:
    """A node pool for each attempt; what was taken back is dry, and another shape is had in its place."""

    titles: Mapping[str, str] = field(
        default_factory=lambda: {
            "reclaim": "Google takes the machines of that pool back, and has no more of their kind",
            "again": "The job goes on where it was, on the next offer that is to be had",
        }
    )

    def fields(self, world: World) -> Mapping[str, Any]:
        return {"zones": list(world.zones), "make_pools": True}

    def prepare(self, world: World) -> None:
        return

    def seen(self, world: World, pool: str) -> str:
        (found,) = (one for name, one in world.google.pools.items() if name.endswith(f"/{pool}"))
        return f"Google's books: pool {pool}, {found.config.machine_type}, spot, in {', '.join(found.locations)}"

    def take_back(self, world: World, pool: str) -> None:
        world.google.dry(machine=FIRST_MACHINE)
        world.google.reclaim(pool)

    def give_again(self, world: World) -> None:
        return

    def tidy(self, world: World) -> None:
        return


@dataclass(slots=True)
class There:
    """A slice that is there; it comes back after it was taken."""

    titles: Mapping[str, str] = field(
        default_factory=lambda: {
            "reclaim": "Google takes the machines of the slice back",
            "again": "The slice is there again, and the job goes on where it was",
        }
    )
    pool: str = "there"
    nodes: list[str] = field(default_factory=list)

    def fields(self, world: World) -> Mapping[str, Any]:
        return {}

    def prepare(self, world: World) -> None:
        self.give_again(world)

    def seen(self, world: World, pool: str) -> str:
        return f"the cluster: {len(self.nodes)} nodes of pool {pool}"

    def take_back(self, world: World, pool: str) -> None:
        world.cluster.kubelet.reclaim_spot(*self.nodes)

    def give_again(self, world: World) -> None:
        self.nodes = world.cluster.add_slice(FIRST_CHIPS, pool=self.pool)

    def tidy(self, world: World) -> None:
        world.cluster.delete_nodes(*self.nodes)


class Queued(There):
    """A Kueue queue lets jobs onto it."""

    def fields(self, world: World) -> Mapping[str, Any]:
        return {"queue": QUEUE}

    def prepare(self, world: World) -> None:
        make_queue(world.cluster, NAMESPACE)
        self.give_again(world)

    def seen(self, world: World, pool: str) -> str:
        return f"Kueue: {', '.join(admitted(world.cluster))} admitted by queue {QUEUE}"


class OnPathways(There):
    """One program drives all chips; a program of the tests plays Google's two, and insists on what is known of them."""

    WISHES: ClassVar = {"pathways": IMAGES}

    def prepare(self, world: World) -> None:
        add_pathways(world.cluster, "pod-python")
        self.give_again(world)


def admitted(cluster: Cluster) -> list[str]:
    """The Workloads that a queue has let in."""
    try:
        found = cluster.api.get(f"{KUEUE}/namespaces/{NAMESPACE}/workloads")["items"]
    except ApiError:
        return []
    return [one["metadata"]["name"] for one in found if _is_admitted(one)]


def _is_admitted(workload: dict[str, Any]) -> bool:
    conditions = workload.get("status", {}).get("conditions", [])
    return any(one["type"] == "Admitted" and one["status"] == "True" for one in conditions)
