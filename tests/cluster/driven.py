"""A job of a test, driven to its end in this process as the launcher drives it anywhere."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

import anyio

from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.backends.base import Backend
from prefect_tpu.infra.job import JobResult, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driver import JobDriver
from prefect_tpu.infra.request import Request, prepare
from prefect_tpu.infra.storage import Storage, open_storage

LONGEST_SECONDS = 400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A job whose code and data are laid down."""

    job: SliceJob
    storage: Storage


def prepared(request: Request) -> Prepared:
    job = prepare(request)
    return Prepared(job=job, storage=open_storage(request.output).inside(job.name))


def drive(prepared: Prepared) -> JobResult:
    """To its end, in this thread."""
    job = prepared.job
    return asyncio.run(to_its_end(job, prepared.storage, open_backend(job.backend)))


class Driving:
    """A job that is driven in a thread of its own."""

    def __init__(self, prepared: Prepared) -> None:
        self._ended: JobResult | BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(prepared,), name=f"drives {prepared.job.name}")
        self._thread.start()

    def _run(self, prepared: Prepared) -> None:
        try:
            self._ended = drive(prepared)
        except BaseException as exc:  # raised where the test waits
            self._ended = exc

    def result(self) -> JobResult:
        self._thread.join(LONGEST_SECONDS)
        assert not self._thread.is_alive(), f"{self._thread.name} did not end within {LONGEST_SECONDS:.0f} s"
        if isinstance(self._ended, BaseException):
            raise self._ended
        assert self._ended is not None
        return self._ended


async def to_its_end(job: SliceJob, storage: Storage, backend: Backend) -> JobResult:
    """As a flow does, without Prefect."""
    job = history.enter(storage, job)
    with anyio.fail_after(LONGEST_SECONDS):
        async with anyio.create_task_group() as tasks:
            driver = JobDriver(job, storage, backend, tasks=tasks)
            while await driver.next_attempt() is not None:
                await driver.provision()
                await driver.launch()
                await driver.release()
            tasks.cancel_scope.cancel()
    assert driver.result is not None, "no attempt is left only once the job has its end"
    return driver.result
