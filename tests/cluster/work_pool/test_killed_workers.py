"""Workers killed at moments that a seed draws, while runs start, finish, are cancelled, deleted and preempted.

At the end every run is in the right state, nothing of it ran twice, and no object is left. `make test-kills` plays 50
moments and twenty runs, or more with KILLS; SEED draws other moments. Both are named with whatever fails.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle

import pytest
import stories_ended
import stories_lost
from missions import processes
from prefect_server import Server
from scenes import Played, Scene, Story
from short_lives import Due, ShortLives, draw, leads_past, ways_of
from slice_pool import SlicePool
from witness import left_of

from prefect_tpu.infra import layout
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.storage import open_storage

pytestmark = [pytest.mark.work_pool, pytest.mark.timeout(3600)]

SEED, KILLS = int(os.environ.get("SEED", "7")), int(os.environ.get("KILLS", "6"))
SEATS, AT_ONCE = 2, 6
MOST_ROUNDS = 8
GONE_SECONDS = 90.0
LOOK_SECONDS = 0.2
CANCELLED, COMPLETED, FAILED, CRASHED, DELETED = "CANCELLED", "COMPLETED", "FAILED", "CRASHED", "deleted"
# In which state each has to end; the first few of them are all kinds of ends.
ENDS = {
    "follower-gone-region": COMPLETED,
    "cancelled-running": CANCELLED,
    "deleted": DELETED,
    "return-region": COMPLETED,
    "forced": CANCELLED,
    "raise-flow": FAILED,
    "return-flow": COMPLETED,
    "leader-told-flow-retried": COMPLETED,
    "slice-told-region-retried": COMPLETED,
    "without-deployment": CANCELLED,
    "killed-region": CRASHED,
    "cancelled-pulling": CANCELLED,
    "leader-gone-region-retried": COMPLETED,
    "raise-region": FAILED,
    "cancelled-dead": CANCELLED,
    "leader-told-region": COMPLETED,
    "slice-gone-region": COMPLETED,
    "follower-told-region-retried": COMPLETED,
    "slice-gone-flow-retried": COMPLETED,
    "137-region": FAILED,
}
FEW_KILLS, FEW = 10, 6  # with so few kills, this many runs
STORIES = {story.name: story for story in (*stories_ended.STORIES, *stories_lost.STORIES)}
LOSSES = {loss.name: loss for loss in stories_lost.LOSSES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordeal:
    """What came of it. played: (name of a story, what came of it). left: objects, leases and processes."""

    played: list[tuple[str, Played | BaseException]]
    due: Due
    left: list[str]
    overlaps: list[str]
    told: str

    def ends(self) -> list[tuple[str, Played]]:
        return [(name, found) for name, found in self.played if isinstance(found, Played)]


@pytest.fixture(scope="module")
def ordeal(postgres: Server, new_pool: Callable[..., SlicePool]) -> Iterator[Ordeal]:
    pool = new_pool(postgres, "killed", leads_past(postgres.environment["PREFECT_API_URL"]))
    due = Due(moments=draw(SEED, KILLS))
    names = list(ENDS)[: FEW if KILLS <= FEW_KILLS else len(ENDS)]
    with ways_of(pool, SEATS) as ways:
        with ShortLives(pool, ways, due):
            played = _play([STORIES[name] for name in names], pool, due)
        left = _left(pool)
        pool.workers.stop()
    told = "\n".join([f"SEED={SEED} KILLS={KILLS}", *map(str, due.deaths), pool.workers.told()])
    yield Ordeal(played=played, due=due, left=left, overlaps=pool.witness.overlaps, told=told)


def _play(stories: list[Story], pool: SlicePool, due: Due) -> list[tuple[str, Played | BaseException]]:
    """Every story once, some at a time; and again from the first, until every moment has struck."""
    turns, lock = cycle(enumerate(stories)), threading.Lock()
    begun, played = 0, []

    def seat() -> None:
        nonlocal begun
        while True:
            with lock:
                if begun >= len(stories) * (MOST_ROUNDS if due.is_any else 1):
                    return
                begun += 1
                name, story = f"{begun}", next(turns)[1]
            scene = Scene(name=f"{pool.name}-{name}", pool=pool)
            try:
                played.append((story.name, story.play(scene)))
            except Exception as error:  # of one story: the others are played all the same
                played.append((story.name, error))
            finally:
                scene.clear()

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for done in [threads.submit(seat) for _ in range(AT_ONCE)]:
            done.result()
    return played


def _left(pool: SlicePool) -> list[str]:
    """Objects, processes and leases that are still there when everything had time to go; two workers live."""
    end = time.monotonic() + GONE_SECONDS
    while True:
        left = [*left_of(pool.stage.cluster.api, pool.namespace), *map(str, processes(pool.output)), *_leases(pool)]
        if not left or time.monotonic() > end:
            return left
        time.sleep(LOOK_SECONDS)


def _leases(pool: SlicePool) -> list[str]:
    """Of jobs, none of which is open."""
    output = open_storage(pool.output)
    return [f"lease of {job}" for job in output.children("") if output.inside(job).get(layout.LEASE) is not None]


def test_every_moment_has_struck(ordeal: Ordeal) -> None:
    assert len(ordeal.due.deaths) == KILLS, ordeal.told
    assert not ordeal.due.ended, "a worker left that nobody had killed"


def test_every_run_is_in_the_right_state(ordeal: Ordeal) -> None:
    wrong = [(name, found) for name, found in ordeal.played if not isinstance(found, Played)]
    assert not wrong, (wrong, ordeal.told)
    for name, played in ordeal.ends():
        if ENDS[name] == DELETED:
            assert played.run.is_deleted(), (name, ordeal.told)
        else:
            assert played.state[0] == ENDS[name], (name, played.told, ordeal.told)


def test_nothing_ran_twice(ordeal: Ordeal) -> None:
    """Each attempt began once, on one JobSet, and there were no more attempts than slices that were lost."""
    assert not ordeal.overlaps, ordeal.told
    for name, played in ordeal.ends():
        told = (name, played.told, ordeal.told)
        result = history.read_result(played.run.folder) if played.run.has_job else None
        outcomes = [attempt.outcome for attempt in result.attempts] if result else []
        loss = LOSSES.get(name)
        assert len(outcomes) <= (2 if loss else 1), told
        assert played.jobsets <= max(1, len(outcomes)), told
        assert played.prepared == (1 if loss else 0), told
        again = 1 if loss and loss.fails_first else 0
        assert played.began <= len(outcomes or [0]) + again, told
        if ENDS[name] == COMPLETED:
            assert outcomes[-1] == "succeeded" and played.began == len(outcomes) + again, told


def test_no_object_is_left(ordeal: Ordeal) -> None:
    assert not ordeal.left, (ordeal.left, ordeal.told)
