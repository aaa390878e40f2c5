"""What is written of a job that decides what becomes of its run? Read in few requests; what never changes, once."""

from __future__ import annotations

import time
from dataclasses import dataclass

import anyio
import anyio.to_thread

from prefect_tpu.flows.work_pool.facts import JobFacts, JobPhase
from prefect_tpu.infra.job import JobResult, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.handed_back import handed_back
from prefect_tpu.infra.launcher.written import Reader, Written
from prefect_tpu.infra.state import JobState
from prefect_tpu.infra.storage import Storage, local_folder, open_storage

LOOK_SECONDS = 1.0
END_SECONDS = 120.0  # from the end of a run to its job's


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRead:
    """A job as it lies there. job: None where there is none."""

    facts: JobFacts
    job: SliceJob | None = None


class JobReader:
    """Looks at one job's folder. Blocks, and is not shared between threads that look at once."""

    def __init__(self, folder: str) -> None:
        self.storage: Storage = open_storage(folder)
        self._reader = Reader(self.storage)

    def read(self) -> JobRead:
        """How it is now, as if nobody drove it.

        Raises `PrefectTpuError` where it cannot be read.
        """
        written = self._reader.look()
        job = history.read_job(self.storage) if written.is_there else None
        if job is None:
            return JobRead(facts=JobFacts(phase=self._absent))
        result = history.read_result(self.storage) if written.has_result else None
        return JobRead(facts=_of_ended(result, written) if result else _of_open(job, written), job=job)

    @property
    def _absent(self) -> JobPhase:
        """A folder of a machine may be on another one than this."""
        return JobPhase.ABSENT if local_folder(self.storage) is None else JobPhase.UNKNOWN


async def wait_for_end(folder: str) -> None:
    """Until the job of an ended run has its end too and its slice is free, within bounds; at once without a job."""
    storage = open_storage(folder)
    if await anyio.to_thread.run_sync(history.read_job, storage) is None:
        return
    with anyio.move_on_after(END_SECONDS):
        while await anyio.to_thread.run_sync(history.read_result, storage) is None:
            await anyio.sleep(LOOK_SECONDS)


def _of_ended(result: JobResult, written: Written) -> JobFacts:
    return JobFacts(
        phase=JobPhase.OVER, end=JobState(result.state), failure=result.failure, ended=max(written.outcomes, default=0)
    )


def _of_open(job: SliceJob, written: Written) -> JobFacts:
    return JobFacts(
        phase=JobPhase.OPEN,
        has_live=written.live is not None,
        is_stop_asked=written.is_stop_asked,
        ended=max(written.outcomes, default=0),
        due=handed_back(job, written, time.time()),
    )
