"""The mission, act by act: what a user does, what the world does, and what is seen of it from outside.

Nothing here asks our code how it went: what is seen is seen by an administrator of the cluster, by Google's own books,
by a look into the bucket and by the Prefect server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.cloud.container_v1 import NodePool
from grounds import CHIPS_LABEL, POOL_LABEL, Ground
from missions import processes
from script import Line, Script
from witness import left_of
from world import NAMESPACE, World

from prefect_tpu.infra import layout
from prefect_tpu.infra.launcher import checkpoints
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import Storage, open_storage

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "on_gke.py"
PATIENCE = 240.0
GONE_SECONDS = 60.0
LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What an act showed. about: for scripts."""

    act: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """Who hears of it while it happens: the title of an act, a line of the script, what an act showed."""

    begins: Callable[[str, str], None]
    line: Callable[[Line], None]
    proved: Callable[[Proof], None]


@dataclass(slots=True, kw_only=True)
class Story:
    """What was seen, for whoever checks it afterwards.

    names, pools, nodes, pods: attempt → what was there of it: the pool's name, the pool in Google's books, …
    result: as the script printed it. left: what must not be.
    """

    names: dict[int, str] = field(default_factory=dict)
    pools: dict[int, NodePool] = field(default_factory=dict)
    nodes: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    pods: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    saved: int = -1
    result: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


class Mission:
    """One run of the example in a world, on slices of one ground; `words` are the script's, behind the job's name."""

    def __init__(self, world: World, ground: Ground, telling: Telling, job: str, *words: str) -> None:
        self.world, self.ground, self._telling, self._job, self._words = world, ground, telling, job, words
        self.story = Story()
        self._storage: Storage = open_storage(world.output).inside(job)

    def play(self) -> Story:
        self._act("save", "Once for a team: the cluster is saved as the block `training`")
        self.ground.prepare(self.world)
        self.world.save(**self.ground.fields(self.world))
        self._prove("save", "the Prefect server has it, and its form")
        command = self.world.python(str(EXAMPLE), "--name", self._job, "--without-chips", *self._words)
        self._act("train", f"python docs/examples/{EXAMPLE.name}")
        with Script(command, self.world.environment, self._telling.line) as script:
            self._first_attempt(script)
            self._reclaim(script)
            self._second_attempt(script)
            self._home(script)
        self.ground.tidy(self.world)
        self._nothing_left()
        return self.story

    def _first_attempt(self, script: Script) -> None:
        self._see_attempt(script, 1)
        saved = script.until(lambda: self._has_saved(1), "the first checkpoint", PATIENCE)
        self._prove("checkpoint", f"the bucket has a whole checkpoint of step {saved}, written by Orbax")

    def _see_attempt(self, script: Script, number: int) -> None:
        """Its pool, its nodes and its pods, once all hosts run."""
        pods = script.until(lambda: self._running(number), f"the pods of attempt {number}", PATIENCE)
        found = [self.world.cluster.api.get(f"/api/v1/nodes/{pod['spec']['nodeName']}") for pod in pods]
        nodes = [node for node in found if CHIPS_LABEL in node["metadata"]["labels"]]
        (name,) = {node["metadata"]["labels"][POOL_LABEL] for node in nodes}
        self.story.pods[number], self.story.nodes[number], self.story.names[number] = pods, nodes, name
        books = {full.rpartition("/")[2]: pool for full, pool in self.world.google.pools.items()}
        if name in books:
            self.story.pools[number] = books[name]
        self._prove("pool", self.ground.seen(self.world, name))
        self._prove("pods", f"the cluster: {len(pods)} pods of JobSet {_jobset(pods)} run, on pool {name}")

    def _running(self, number: int) -> list[dict[str, Any]] | None:
        """The pods of an attempt, once every one of them runs."""
        plan = self._storage.get(layout.plan(number))
        found = self.world.cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        pods = [pod for pod in found if pod["metadata"]["labels"].get("prefect-tpu/attempt") == str(number)]
        if plan is None or len(pods) != _count(HostPlan.from_json(plan)):
            return None
        return pods if all(pod["status"].get("phase") == "Running" for pod in pods) else None

    def _has_saved(self, number: int) -> int | None:
        step = checkpoints.saved_step(self._storage, number)
        return step if step else None

    def _reclaim(self, script: Script) -> None:
        """The slice goes in the middle of the training."""
        pool = self.story.names[1]
        gone = {node["metadata"]["name"] for node in self.story.nodes[1]}
        self._act("reclaim", self.ground.titles["reclaim"])
        self.ground.take_back(self.world, pool)
        script.until(lambda: not gone & set(self.world.nodes()), "the end of the nodes", PATIENCE)
        self._prove("reclaim", f"the cluster: none of the {len(gone)} nodes is left")
        self.ground.give_again(self.world)

    def _second_attempt(self, script: Script) -> None:
        self._act("again", self.ground.titles["again"])
        self._see_attempt(script, 2)
        first, second = (len(self.story.pods[number]) for number in (1, 2))
        self._prove("shape", f"{first} hosts before, {second} now")

    def _home(self, script: Script) -> None:
        status = script.wait(PATIENCE)
        assert status == 0, script.told()
        self.story.result, self.story.lines = script.result(), script.lines
        self._act("home", "The result is home")
        attempts = self.story.result["attempts"]
        run = self.world.server.run_of(self._job)
        assert run is not None
        self.story.tasks = self.world.server.task_runs(run)
        begun, value = attempts[-1]["first_step"], self.story.result["value"]
        self._prove("resumed", f"attempt {attempts[-1]['number']} began at step {begun}, where the checkpoint was")
        self._prove("result", f"{value['steps']} steps, accuracy {value['accuracy']:.3f} on digits it had not seen")

    def _nothing_left(self) -> None:
        self._act("left", "What is left")
        end = time.monotonic() + GONE_SECONDS
        while (left := self._left()) and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        self.story.left = left
        self._prove("left", "; ".join(left) or "nothing: no JobSet, pod, ConfigMap, node pool, node or process")

    def _left(self) -> list[str]:
        ours = {name.rpartition("/")[2] for name in self.world.google.pools}
        nodes = [name for name in self.world.nodes() if "default-pool" not in name]
        pools = [f"pool {name}" for name in sorted(ours)]
        running = [f"process {one.pid}" for one in processes(self.world.output)]
        return [*left_of(self.world.cluster.api, NAMESPACE), *pools, *(f"node {name}" for name in nodes), *running]

    def _act(self, act: str, title: str) -> None:
        self._telling.begins(act, title)

    def _prove(self, act: str, text: str) -> None:
        self._telling.proved(Proof(act=act, text=text))


def _count(plan: HostPlan) -> int:
    """Of the pods of an attempt."""
    return plan.hosts + plan.workers


def _jobset(pods: list[dict[str, Any]]) -> str:
    return str(pods[0]["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"])
