"""The lives of drivers: each is killed at a moment and another one started, until all moments are used up."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from faults import Moment, Traffic
from nursery import Life
from way import BUCKET, CLUSTER, POOLS

from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.storage import Storage

LIFE_SECONDS = 200.0
LAST_CHARACTERS = 3000  # of what a driver said
# (server, whether writes alone count, the last one there is likely to be)
KINDS = (
    (CLUSTER, True, 6),
    (CLUSTER, True, 3),
    (CLUSTER, False, 30),
    (BUCKET, True, 12),
    (POOLS, True, 2),
    (POOLS, False, 12),
    ("", False, 80),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """A job whose code is laid down, and its folder."""

    job: SliceJob
    storage: Storage


@dataclass(slots=True, kw_only=True)
class Lives:
    """What was done to the drivers of one mission's jobs, one job after the other.

    lay_down: the job of a number. start: a driver of it. results: of each job, as its last driver told it.
    killed: the moments that struck. told: the last words of each life.
    """

    lay_down: Callable[[int], Laid]
    start: Callable[[Path, str], Life]
    traffic: Traffic
    folder: Path
    results: list[dict[str, Any]] = field(default_factory=list)
    killed: list[Moment] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def live_through(self, moments: list[Moment]) -> None:
        """At least one job, and jobs until every moment has struck."""
        left, number = list(moments), 0
        while left or not number:
            number += 1
            self._one_job(self.lay_down(number), left)

    def _one_job(self, laid: Laid, left: list[Moment]) -> None:
        path = self.folder / f"{laid.job.name}.json"
        path.write_bytes(laid.job.to_json())
        while True:
            life = self.start(path, laid.storage.url)
            if left:
                self.traffic.arm(left[0], life.kill)
            code = life.wait(LIFE_SECONDS)
            self.traffic.disarm()
            self.told.append(f"{laid.job.name}: {left[:1]} {code}\n{life.said.read_text()[-LAST_CHARACTERS:]}")
            if code != -signal.SIGKILL:
                break
            self.killed.append(left.pop(0))
        if left:  # it did not come to that moment: an earlier one for the next job
            left[0] = replace(left[0], nth=max(1, left[0].nth // 2))
        assert code == 0, self.told[-1]
        self.results.append(life.result())


def draw(seed: int, count: int, servers: tuple[str, ...] = (CLUSTER, BUCKET)) -> list[Moment]:
    """So many moments, before and after the server has done what it was asked for."""
    chance, found = random.Random(seed), []
    kinds = [kind for kind in KINDS if kind[0] in ("", *servers)]
    for _ in range(count):
        server, is_of_writes, last = chance.choice(kinds)
        nth = chance.randint(1, last)
        found.append(Moment(nth=nth, is_of_writes=is_of_writes, server=server, is_done=chance.random() < 0.6))
    return found
