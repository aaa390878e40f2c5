"""Flow runs that are ended: cancelled by somebody in every phase, or by what their own code does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from queues import KUEUE, QUEUE, make_queue
from scenes import CHIPS, HOSTS, Played, Scene, Story, played, seen
from slice_runs import SliceRun

ONE_HOST = {"accelerator": "cpu-1x1"}
NOWHERE = "nowhere.example/nothing:1"  # an image
IN_QUEUE = f"in Kueue's queue {QUEUE}"


def cancel(run: SliceRun) -> None:
    """As the button of the UI does."""
    run.set_state("CANCELLING", "Cancelling")


def force(run: SliceRun) -> None:
    """As the UI does with a run that it takes for dead."""
    run.set_state("CANCELLED", "Cancelled", is_forced=True)


def forget_deployment(run: SliceRun) -> None:
    """As somebody does who has no use for it any more."""
    run.server.delete(f"/deployments/{run.read()['deployment_id']}")


def forget_and_cancel(run: SliceRun) -> None:
    forget_deployment(run)
    cancel(run)


def in_a_queue(scene: Scene) -> SliceRun:
    """Kueue holds it back."""
    make_queue(scene.cluster, scene.pool.namespace)
    path = f"{KUEUE}/clusterqueues/{scene.pool.namespace}"
    scene.cluster.api.patch(path, {"spec": {"stopPolicy": "Hold"}}, "merge-patch")
    run = scene.start("once", {"accelerator": CHIPS, "queue": QUEUE})
    run.wait_for_name("Queued", words=IN_QUEUE)
    return run


def pulling_its_image(scene: Scene) -> SliceRun:
    run = scene.start("once", {**ONE_HOST, "image": NOWHERE})
    run.wait_for_name("Pulling")
    return run


def running(scene: Scene) -> SliceRun:
    run = scene.start("once", ONE_HOST)
    run.wait_until_up(1, 1)
    return run


def on_a_slice(scene: Scene) -> SliceRun:
    """In a region, on nodes that no other run may use."""
    run = scene.start("once", scene.add_slice(), has_region=True)
    run.wait_until_up(1, HOSTS)
    return run


def dead(scene: Scene) -> SliceRun:
    """Its pods are gone, and nobody has said so to Prefect."""
    run = on_a_slice(scene)
    scene.lose(*scene.nodes, with_notice=False)
    return run


def ended(at: Callable[[Scene], SliceRun], by: Callable[[SliceRun], None]) -> Callable[[Scene], Played]:
    """A run that is ended by somebody once it is so far."""

    def play(scene: Scene) -> Played:
        run = at(scene)
        by(run)
        return gone(run, scene)

    return play


def gone(run: SliceRun, scene: Scene) -> Played:
    """What came of a run to which somebody has just done something that ends it."""
    seconds = run.wait_until_gone()
    return replace(played(run, scene.pool), seconds_to_gone=seconds)


def deleted(scene: Scene) -> Played:
    """Its run is deleted: nobody can ask for it any more."""
    run = running(scene)
    before = seen(run, scene.pool)
    run.server.delete(f"/flow_runs/{run.id}")
    return replace(before, seconds_to_gone=run.wait_until_gone())


def lost_without_deployment(scene: Scene) -> Played:
    """Its deployment is deleted while it runs; then its slice is lost."""
    run = on_a_slice(scene)
    forget_deployment(run)
    scene.lose(*scene.nodes, with_notice=False)
    return played(run, scene.pool)


def waiting_without_deployment(scene: Scene) -> Played:
    """Its deployment is deleted while it waits for its next slice, in a queue that hands out nothing meanwhile."""
    pool, queues = scene.pool, f"/work_pools/{scene.pool.name}/queues"
    pool.server.ask(queues, name=scene.name)
    deployment = pool.deploy("once", {"work_queue_name": scene.name}, **scene.add_slice())
    run = pool.start(deployment, has_region=True)
    run.wait_until_up(1, HOSTS)
    pool.server.change(f"{queues}/{scene.name}", is_paused=True)
    scene.lose(*scene.nodes, with_notice=False)
    run.wait_for_name("AwaitingRetry")
    forget_deployment(run)
    pool.server.change(f"{queues}/{scene.name}", is_paused=False)
    return played(run, pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How the flow's own code ends it. has_region: on the second of two hosts. variables: of the deployment."""

    way: str
    has_region: bool
    variables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.way}-{'region' if self.has_region else 'flow'}"

    def play(self, scene: Scene) -> Played:
        variables = {"accelerator": "cpu-2x1"} if self.has_region else ONE_HOST
        host = 1 if self.has_region else 0
        run = scene.start("once", {**variables, **self.variables}, has_region=self.has_region, end=self.way, host=host)
        run.let_go_on()
        return played(run, scene.pool)


ENDS = (
    End(way="return", has_region=False),
    End(way="return", has_region=True),
    End(way="raise", has_region=False),
    End(way="raise", has_region=True),
    End(way="memory", has_region=False, variables={"memory": "800Mi"}),
    End(way="memory", has_region=True, variables={"memory": "800Mi"}),
    End(way="137", has_region=True),
    End(way="killed", has_region=True, variables={"max_preemptions": 0}),
    End(way="137", has_region=False),
    End(way="killed", has_region=False, variables={"max_preemptions": 0}),
)
STORIES = [
    Story(name="cancelled-queued", play=ended(in_a_queue, cancel), needs_kueue=True),
    Story(name="cancelled-pulling", play=ended(pulling_its_image, cancel)),
    Story(name="cancelled-running", play=ended(running, cancel), on=("postgres", "sqlite")),
    Story(name="cancelled-dead", play=ended(dead, cancel)),
    Story(name="forced", play=ended(running, force)),
    Story(name="deleted", play=deleted),
    Story(name="without-deployment", play=ended(running, forget_and_cancel)),
    Story(name="without-deployment-pending", play=ended(pulling_its_image, forget_and_cancel)),
    Story(name="lost-without-deployment", play=lost_without_deployment),
    Story(name="waiting-without-deployment", play=waiting_without_deployment),
    *(Story(name=end.name, play=end.play) for end in ENDS),
]
