"""Which node pools live at the same time? And one slice is taken back while its first pods run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial

from background import InBackground
from container import Google
from google.cloud.container_v1 import NodePool

from prefect_tpu.infra import layout
from prefect_tpu.infra.storage import Storage

FIRST_JOB = "job1"
JOB = "prefect-tpu-job"
LOOK_SECONDS = 0.02
GOING = (NodePool.Status.STOPPING, NodePool.Status.ERROR)


class PoolWitness(InBackground):
    """Looks for as long as it is entered.

    overlaps: what must not be, in words. made: job → its pools so far. taken: the pool that was taken back.
    """

    def __init__(self, google: Google, jobs: Storage) -> None:
        super().__init__(*(partial(self._again, look) for look in (self._look, self._take_back)))
        self._google, self._jobs = google, jobs
        self.overlaps: list[str] = []
        self.made: dict[str, set[str]] = defaultdict(set)
        self.taken: str | None = None

    def _again(self, look: Callable[[], None]) -> None:
        while not self.is_over.wait(LOOK_SECONDS):
            look()

    def _look(self) -> None:
        alive = defaultdict(set)
        for pool in self._google.pools.values():
            job = pool.config.labels[JOB]
            self.made[job].add(pool.name)
            if pool.status not in GOING:
                alive[job].add(pool.name)
        both = {job: sorted(names) for job, names in alive.items() if len(names) > 1}
        self.overlaps += [f"pools {names} of {job} live at once" for job, names in both.items()]

    def _take_back(self) -> None:
        """The slice of the first job, once its host runs: before, it could hear of nothing."""
        if self.taken is None and self._jobs.get(f"{FIRST_JOB}/{layout.started(1, 0)}"):
            (self.taken,) = self.made[FIRST_JOB]
            self._google.reclaim(self.taken)
