"""One thing that happens to one flow run: what it is told by, what may be done to it, and what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster import Cluster
from prefect_server import wait_for
from slice_pool import SlicePool
from slice_runs import Object, SliceRun

from prefect_tpu.infra.launcher import history

HOSTS, CHIPS = 2, "v5p-16:spot"  # the smallest slice of more than one host
POOL_LABEL = "cloud.google.com/gke-nodepool"
DATABASES = tuple(filter(None, os.environ.get("DATABASES", "").split(",")))  # for all stories, in place of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of it.

    state: type and name at the end. message: of that state. states: all names, in order.
    outcomes: of each attempt of the job, in words; `succeeded` or a failure's kind.
    jobsets: how many there ever were. overlaps: what lived at the same time and must not have.
    began, prepared: how often the flow began, and how often its task with a kept result ran.
    left: what of it is still in the cluster. told: for whoever reads of a failed test.
    seconds_to_gone: from what somebody did to it until none of it was left there; None where nobody did anything.
    """

    state: tuple[str, str]
    message: str
    states: Sequence[str]
    outcomes: Sequence[str]
    jobsets: int
    overlaps: Sequence[str]
    began: int
    prepared: int
    run_count: int
    left: Sequence[str]
    run: SliceRun
    history: Sequence[Object]
    told: Mapping[str, Any]
    seconds_to_gone: float | None = None


@dataclass(slots=True, kw_only=True)
class Scene:
    """Where one story is played.

    name: of the story. nodes: of a slice that no other run may use.
    """

    name: str
    pool: SlicePool
    nodes: list[str] = field(default_factory=list)
    _slice: str = ""

    @property
    def cluster(self) -> Cluster:
        return self.pool.stage.cluster

    def add_slice(self, accelerator: str = CHIPS) -> dict[str, Any]:
        """A slice of its own; the variables by which a run is put there."""
        self._slice = f"{self.name}-{os.urandom(2).hex()}"
        self.nodes = self.cluster.add_slice(accelerator, pool=self._slice)
        return {"accelerator": accelerator, "node_selector": {POOL_LABEL: self._slice}}

    def give_again(self, accelerator: str = CHIPS) -> None:
        """The nodes that were lost are there again."""
        self.cluster.delete_nodes(*self.nodes)
        self.nodes = self.cluster.add_slice(accelerator, pool=self._slice)

    def lose(self, *nodes: str, with_notice: bool) -> None:
        """Spot VMs are taken back after a notice, or are gone without a word."""
        if with_notice:
            self.cluster.kubelet.reclaim_spot(*nodes)
        else:
            self.cluster.delete_nodes(*nodes)

    def wait_until_lost(self, *nodes: str) -> None:
        """Until the nodes are gone from the cluster."""
        path = "/api/v1/nodes"

        def look() -> bool:
            return not {one["metadata"]["name"] for one in self.cluster.api.get(path)["items"]} & set(nodes)

        wait_for(look, f"the end of nodes {', '.join(nodes)}")

    def start(self, flow: str, variables: Mapping[str, Any], **parameters: Any) -> SliceRun:
        """A run of a deployment of its own."""
        return self.pool.start(self.pool.deploy(flow, **variables), **parameters)

    def clear(self) -> None:
        self.cluster.delete_nodes(*self.nodes)


def played(run: SliceRun, pool: SlicePool) -> Played:
    """What came of a run of a pool, once it has its end."""
    run.wait_for_end()
    run.wait_until_gone()
    return seen(run, pool)


def seen(run: SliceRun, pool: SlicePool) -> Played:
    """How it stands."""
    found, past = run.read(), run.history()
    state = found["state"]
    result = history.read_result(run.folder) if run.has_job else None
    outcomes = [attempt.outcome for attempt in result.attempts] if result else []
    return Played(
        state=(state["type"], state["name"]),
        message=state["message"] or "",
        states=[one["name"] for one in past],
        outcomes=outcomes,
        jobsets=len(pool.witness.made[run.job]),
        overlaps=[line for line in pool.witness.overlaps if run.job in line],
        began=run.count("began"),
        prepared=run.count("prepared"),
        run_count=found["run_count"],
        left=run.left(),
        run=run,
        history=past,
        told={"states": [f"{one['name']}: {one['message']}" for one in past], "attempts": outcomes},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happens.

    on: the databases of the servers with which it is played. needs_kueue: beside JobSet.
    waits: it waits for longer than it works, so that it is played first, beside others.
    """

    name: str
    play: Callable[[Scene], Any]
    on: tuple[str, ...] = ("postgres",)
    needs_kueue: bool = False
    waits: bool = False


def on_each(stories: Iterable[Story]) -> list[tuple[Story, str]]:
    """Every story with every database that it is played on."""
    return [(story, database) for story in stories for database in DATABASES or story.on]


def named(value: object) -> str | None:
    """How a story is called among the names of tests."""
    return value.name if isinstance(value, Story) else None
