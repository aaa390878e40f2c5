"""`prefect_tpu.submit` and `attach`: a job that goes on when its caller ends, in any process's hands."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from prefect_tpu.flows.asking import Asked, ask
from prefect_tpu.flows.background import see_to_it, start_driver
from prefect_tpu.flows.brief import brief
from prefect_tpu.flows.call import with_value
from prefect_tpu.flows.options import Options, Path
from prefect_tpu.infra.errors import JobFailed, NoSuchJob, PlatformError
from prefect_tpu.infra.job import JobResult, check_name
from prefect_tpu.infra.job_checks import check_count, check_positive
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.arriving import arriving
from prefect_tpu.infra.launcher.host_logs import Wanted, lines
from prefect_tpu.infra.launcher.jobs import find_job
from prefect_tpu.infra.launcher.lease import Pulse
from prefect_tpu.infra.launcher.status import JobStatus, pause_between_looks, read_status
from prefect_tpu.infra.places import driver_log
from prefect_tpu.infra.request import default_output, prepare
from prefect_tpu.infra.storage import Storage, open_storage
from prefect_tpu.infra.summary import failing_traceback

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.2
MOST_DRIVERS = 10  # started by one call: one that always dies is a defect, not bad luck


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Job:
    """A job by its name and its folder; any process may hold one.

    A driver in the background brings it to its end. Where that one was killed,
    whoever waits for the job starts another.
    """

    name: str
    folder: str

    def __repr__(self) -> str:
        output, _ = os.path.split(self.folder)
        return f"attach({self.name!r}, output={output!r})"

    def status(self) -> JobStatus:
        """How the job stands, by its files."""
        return read_status(self.folder)

    def done(self) -> bool:
        """Whether the job has its end: succeeded, failed or stopped."""
        return self._end() is not None

    def result(self, timeout: float | None = None) -> JobResult:
        """Wait for the end of the job.

        Args:
            timeout: seconds to wait; the job runs on after them.

        Returns:
            The result; `value` is what the leader returned.

        Raises:
            JobFailed: the job ended without its result, also by being stopped.
            TimeoutError: it has not ended yet.
            PlatformError: nobody drives it, and no driver can be started.
        """
        if timeout is not None and timeout != 0:
            check_positive("timeout", timeout)
        result = self._wait(timeout)
        if result.failure is not None:
            raise JobFailed(self.name, result.failure, traceback=failing_traceback(result))
        return with_value(result)

    def logs(self, host: int | None = None, *, follow: bool = False) -> Iterator[str]:
        """What the hosts printed in the newest attempt, line by line.

        Args:
            host: one of them; by default all, and each line says whose it is where there are several.
            follow: go on as lines are written, through later attempts, until the job has its end.
        """
        if host is not None:
            check_count("host", host)
        wanted = Wanted(hosts=None if host is None else (host,), follow=follow, outlasts_drivers=True)
        care, attempt, count = _Care(self), 0, 1
        for line in arriving(lines(self._storage, wanted), care.pause):
            if line is None:
                if follow:
                    care.see_to_it()
                continue
            if line.attempt != attempt:
                attempt, count = line.attempt, history.read_plan(self._storage, line.attempt).hosts
            is_alone = host is not None or count == 1
            yield line.text if is_alone else f"host {line.host:{len(str(count - 1))}} | {line.text}"

    def stop(self, *, wait: bool = True) -> None:
        """Stop the job: its hosts save and leave. Run it again by its name to go on.

        Args:
            wait: return once the job has its end; else once somebody sees to it.
        """
        if self.done():
            return
        history.ask_to_stop(self._storage, "stopped by Job.stop()")  # first, so that nobody begins another attempt
        care = _Care(self)
        care.see_to_it()
        while wait and not self.done() and history.is_stop_asked(self._storage):  # else somebody runs it again already
            care.see_to_it()
            time.sleep(care.pause)

    @property
    def _storage(self) -> Storage:
        return open_storage(self.folder)

    def _end(self) -> JobResult | None:
        return history.read_result(self._storage)

    def _wait(self, timeout: float | None) -> JobResult:
        care, give_up = _Care(self), time.monotonic() + (math.inf if timeout is None else timeout)
        while (end := self._end()) is None:
            care.see_to_it()
            if time.monotonic() > give_up:
                raise TimeoutError(f"Job {self.name!r} has not ended after {timeout:g} s; it runs on.")
            time.sleep(care.pause)
        return end


class _Care:
    """Sees to it that somebody drives the job while one call waits for it."""

    def __init__(self, job: Job) -> None:
        self._job, self._storage, self._started = job, job._storage, 0
        self._pulse = Pulse(self._storage, time.monotonic)
        self.pause = pause_between_looks(self._storage, LOOK_SECONDS)

    def see_to_it(self) -> None:
        """Start a driver where nobody drives a job that has no end."""
        storage = self._storage
        if not history.is_there(storage):
            raise NoSuchJob(f"Job {self._job.name!r} is no longer in {storage.url}: it was deleted or moved away.")
        if self._pulse.driver() is not None or self._job.done():
            return
        if self._started == MOST_DRIVERS:
            raise PlatformError(
                f"Job {self._job.name!r} had {self._started} drivers and each ended before the job did."
                f" {driver_log(storage, os.environ)} says why."
            )
        self._started += 1
        start_driver(storage)


@brief
def submit(
    program: str | Callable[..., Any],
    accelerator: str = "cpu",
    *,
    params: Mapping[str, Any] | None = None,
    data: Mapping[str, Path] | None = None,
    name: str | None = None,
    output: Path | None = None,
    **options: Unpack[Options],
) -> Job:
    """Start a job in the background, without Prefect, and come back at once.

    It goes on when this process ends. A job of that name that runs already is
    adopted, and one that failed or was stopped goes on.

    Args:
        program: as of `train`.
        accelerator: as of `train`.
        params: keyword arguments of the function, as JSON.
        data: name → file or folder, laid down for the program to read.
        name: of the job, by which `attach` finds it.
        output: folder of all jobs; `$PREFECT_TPU_OUTPUT` or the user's data directory by default.
        **options: as of `train`.

    Returns:
        The job, once it is driven.

    Raises:
        UsageError: the call cannot be carried out; the message says what to change.
        PlatformError: the driver does not start, or the output cannot be written.
    """
    own = {"params": params, "data": data, "name": name, "output": output}
    asked = ask("submit", program, accelerator, {**own, **options})
    _compile_ahead(asked)
    wanted, storage = prepare(asked.send()), open_storage(asked.folder)
    see_to_it(storage, wanted)
    return Job(name=wanted.name, folder=storage.url)


def _compile_ahead(asked: Asked) -> None:
    if not asked.request.compile:
        return
    from prefect_tpu.infra.compiled_ahead import compile_ahead, refusal

    if (why := refusal(asked.request.name, compile_ahead(asked.send(), log.info))) is not None:
        raise why


@brief
def attach(name: str, output: Path | None = None) -> Job:
    """The job of that name, whoever began it.

    Args:
        name: of the job.
        output: folder of all jobs; `$PREFECT_TPU_OUTPUT` or the user's data directory by default.

    Raises:
        UsageError: there is no such job; the message has the nearest name.
    """
    if type(name) is not str:
        check_name(name)
    return Job(name=name, folder=find_job(os.fspath(output or default_output()), name).url)
