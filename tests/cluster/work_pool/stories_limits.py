"""What bounds a flow run: its restarts, its back-off, and the slot of its deployment while it waits for a slice."""

from __future__ import annotations

import time
from dataclasses import dataclass

from scenes import HOSTS, Played, Scene, Story, played

LEASE_SECONDS = 30  # of a slot, at first; the shortest that the server takes


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoRuns:
    """Of one deployment, in the order in which they were asked for. overlapped: whether both were ever live at once."""

    first: Played
    second: Played
    overlapped: bool


def capped(scene: Scene) -> Played:
    """Its slice is lost more often than it may be."""
    run = scene.start("train", {**scene.add_slice(), "max_preemptions": 1}, has_region=True)
    for attempt in (1, 2):
        run.wait_until_up(attempt, HOSTS)
        scene.lose(*scene.nodes, with_notice=False)
        scene.give_again()
    return played(run, scene.pool)


def slow_slice(scene: Scene) -> TwoRuns:
    """One run at a time may be; the first has no slice for longer than its slot is kept for it."""
    deployment = scene.pool.deploy("once", {"concurrency_limit": 1}, **_of_a_slice_that_comes(scene))
    first = scene.pool.start(deployment)
    first.wait_for_name("Provisioning")
    second = scene.pool.start(deployment)
    until, overlapped = time.monotonic() + 2 * LEASE_SECONDS, False
    while time.monotonic() < until:
        overlapped |= second.state[0] in ("PENDING", "RUNNING")
        time.sleep(0.5)  # what is tried is time that passes
    scene.give_again()
    first.let_go_on()
    second.let_go_on()
    return TwoRuns(first=played(first, scene.pool), second=played(second, scene.pool), overlapped=overlapped)


def _of_a_slice_that_comes(scene: Scene) -> dict[str, object]:
    variables = scene.add_slice()
    scene.cluster.delete_nodes(*scene.nodes)
    return variables


STORIES = [
    Story(name="capped", play=capped, waits=True),
    Story(name="slow-slice", play=slow_slice, waits=True),
]
