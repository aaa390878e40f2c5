"""What becomes of a run that is handed to a worker? A job, a message that says what is wrong, or another try later.

None of it raises: Prefect would call the run crashed, and nobody would try again.
"""

from __future__ import annotations

import datetime
import errno
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import Abort, ObjectNotFound
from prefect.states import AwaitingRetry, Failed
from prefect.utilities.engine import propose_state

from prefect_tpu.flows.work_pool.busy_server import asked
from prefect_tpu.flows.work_pool.configuration import TpuSliceConfiguration
from prefect_tpu.flows.work_pool.submission import Holds, submission_of, submit, with_saved_clusters
from prefect_tpu.infra.errors import PrefectTpuError, RefusedForGood, UsageError
from prefect_tpu.infra.gcp.errors import ClusterError, Unauthorized, Unavailable
from prefect_tpu.infra.launcher.asked_by import AskedBy

SUBMIT_SECONDS = 40.0  # for all of it: a cluster or a bucket that takes longer counts as away
AGAIN_SECONDS = 20.0  # until the pool hands a run out again that could not be submitted
_NO_FOLDER = frozenset({errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ENAMETOOLONG, errno.EISDIR})  # of an output
NOT_YET = "Not submitted yet:"  # how the message begins of a run that was put back


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Where runs of a pool are handed in.

    holds: gives a job's lease for a moment.
    nudge: hears of each job that was written down.
    """

    client: PrefectClient
    work_pool: str
    holds: Holds
    nudge: Callable[[str], None]

    async def take(
        self,
        run: FlowRun,
        configuration: TpuSliceConfiguration,
        started: Callable[[Any], None],
        log: logging.LoggerAdapter[Any],
    ) -> str | None:
        """The folder of the run's job; None where it has none now, and its state says why.

        started: told the folder, or why there is none, as soon as it is known.
        """
        folder: str | None = None
        if configuration.ignored:
            log.warning("The work pool has no job variables %s: they are ignored.", ", ".join(configuration.ignored))
        try:
            with anyio.fail_after(SUBMIT_SECONDS):
                submission = submission_of(await with_saved_clusters(configuration), run.id)
                folder = submission.folder
                started(folder)
                await self._keep_pid(run, folder, log)
                asker = AskedBy(flow_run=str(run.id), work_pool=self.work_pool)
                await submit(submission, asker, self.holds, lambda: self._still_waits(run))
        except Exception as exc:
            if folder is None:
                started(exc)
            await self._end_or_put_back(run, configuration, exc, log)
            return None
        log.info("The run is job %s in %s.", submission.job.name, submission.output)
        self.nudge(folder)
        return folder

    async def _keep_pid(self, run: FlowRun, folder: str, log: logging.LoggerAdapter[Any]) -> None:
        """Where what the run has on a slice is found: also for runs whose submission Prefect does not follow."""
        if run.infrastructure_pid == folder:
            return
        try:
            await asked(lambda: self.client.update_flow_run(run.id, infrastructure_pid=folder))
        except (httpx.HTTPError, ObjectNotFound) as exc:
            log.warning("The run's infrastructure_pid %s could not be stored: %s", folder, exc)

    async def _still_waits(self, run: FlowRun) -> bool:
        """False where another worker began it meanwhile, or nobody wants it any more."""
        try:
            now = await asked(lambda: self.client.read_flow_run(run.id))
        except ObjectNotFound:
            return False
        return now.state is not None and now.state.is_pending()

    async def _end_or_put_back(
        self, run: FlowRun, configuration: TpuSliceConfiguration, exc: Exception, log: logging.LoggerAdapter[Any]
    ) -> None:
        if not isinstance(exc, PrefectTpuError | httpx.HTTPError | TimeoutError):
            log.error("The run could not be submitted, by an error of prefect-tpu's own.", exc_info=exc)
        now = datetime.datetime.now(datetime.UTC)
        if is_for_good(exc) or await self._waited(run, now) > configuration.provision_timeout:
            log.error("The run cannot be submitted: %s", said(exc))
            await self._move(run, Failed(message=said(exc)), log)
            return
        log.warning("The run could not be submitted yet: %s", said(exc))
        later = now + datetime.timedelta(seconds=AGAIN_SECONDS)
        await self._move(run, AwaitingRetry(scheduled_time=later, message=f"{NOT_YET} {said(exc)}"), log)

    async def _waited(self, run: FlowRun, now: datetime.datetime) -> float:
        """Seconds since the run could first not be submitted."""
        try:
            states = await asked(lambda: self.client.read_flow_run_states(run.id))
        except (httpx.HTTPError, ObjectNotFound):
            return 0.0
        return (now - troubled_since(states, now)).total_seconds()

    async def _move(self, run: FlowRun, state: State[Any], log: logging.LoggerAdapter[Any]) -> None:
        """Prefect takes such states of runs that run and of some that are over, too: the run is looked at each time."""

        async def move() -> None:
            if not await self._still_waits(run):
                raise Abort("It waits for no submission any more.")
            await propose_state(self.client, state, flow_run_id=run.id)

        try:
            await asked(move)
        except (Abort, ObjectNotFound) as exc:  # somebody else has moved it: they know better
            log.info("The run stays as it is: %s", exc)
        except httpx.HTTPError as exc:  # whoever finds it waiting without a job puts it back
            log.warning("The run could not be moved to %s: %s", state.name, exc)


def troubled_since(states: Iterable[State[Any]], now: datetime.datetime) -> datetime.datetime:
    """When the run was first put back of all the times in a row that it was."""
    since = now
    for state in sorted(states, key=lambda state: state.timestamp, reverse=True):
        if (state.message or "").startswith(NOT_YET):
            since = state.timestamp
        elif state.type is not StateType.PENDING:
            break
    return since


def is_for_good(exc: Exception) -> bool:
    """Whether submitting the run again would end the same way."""
    if isinstance(exc, ClusterError):
        return not isinstance(exc, Unavailable | Unauthorized)
    cause = exc.__cause__
    is_no_folder = isinstance(cause, OSError) and cause.errno in _NO_FOLDER
    return is_no_folder or isinstance(exc, UsageError | RefusedForGood)


def said(exc: Exception) -> str:
    """Why it did not go, for people."""
    if isinstance(exc, TimeoutError):
        return f"It took more than {SUBMIT_SECONDS:.0f} s; the output or a cluster does not answer."
    return str(exc) if isinstance(exc, PrefectTpuError) else f"{type(exc).__name__}: {exc}"
