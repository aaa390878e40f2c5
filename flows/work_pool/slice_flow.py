"""What can be done with a flow that is bound to a pool? Called, submitted here or to a worker, and retried."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Literal, ParamSpec, TypeVar, overload
from uuid import UUID

import anyio
import httpx
import psutil
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import ObjectNotFound
from prefect.flows import InfrastructureBoundFlow
from prefect.logging import get_logger
from prefect.states import Cancelled, Cancelling, Scheduled
from prefect.utilities.asyncutils import run_coro_as_sync
from prefect.utilities.callables import get_call_parameters
from prefect.utilities.urls import url_for

from prefect_tpu.flows.call import check_server_lasts
from prefect_tpu.flows.work_pool import travelling
from prefect_tpu.flows.work_pool.companion import start_companion, wait_until_gone
from prefect_tpu.flows.work_pool.sending import send
from prefect_tpu.flows.work_pool.slice_run import SliceRun

log = get_logger("slice")
P = ParamSpec("P")
R = TypeVar("R")
ASKING_SECONDS = 10.0  # to ask for the end of a run whose caller is being interrupted


class SliceFlow(InfrastructureBoundFlow[P, R]):
    """A flow that runs on a slice of a `tpu-slice` pool, each time anew."""

    _is_leaving = False

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @overload
    def __call__(self, *args: Any, return_state: Literal[True], **kwargs: Any) -> State[R]: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on a slice and wait for the end. Interrupted, the run is cancelled.

        Args:
            *args: what the flow takes.
            **kwargs: what the flow takes. Beside that `return_state=True` returns the final state, in place of what the
                flow returns or raises, and `wait_for` are futures after whose end the run begins.
        """
        return_state, wait_for = bool(kwargs.pop("return_state", False)), kwargs.pop("wait_for", None)
        parameters = self._parameters(args, kwargs)
        if inspect.iscoroutinefunction(self.fn):
            return self._to_its_end(parameters, return_state=return_state, wait_for=wait_for)
        begun: list[UUID] = []
        try:
            run, companion = self._submitted(parameters, wait_for, begun)
            run.wait()
            run_coro_as_sync(wait_until_gone(companion))
        except KeyboardInterrupt:  # before this process may end, which it does without waiting for Prefect's threads
            run_coro_as_sync(_cancel(begun))
            raise
        return run.state if return_state else run.result()

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> SliceRun[R]:
        """Begin to run on a slice. A process in the background sees to the run until its end, whatever the caller does.

        Returns:
            The run: `state`, `wait()` and `result()`.
        """
        return self._submitted(self._parameters(args, kwargs), None, [])[0]

    def submit_to_work_pool(self, *args: P.args, **kwargs: P.kwargs) -> SliceRun[R]:
        """Leave the run to whichever worker of the pool takes it; needs no access to where slices come from.

        Returns:
            The run: `state`, `wait()` and `result()`.
        """
        return run_coro_as_sync(self._leave_to_workers(self._parameters(args, kwargs)))

    async def retry(self, flow_run: FlowRun) -> Any:
        """Run a flow run of this flow that is over once more, with the code and settings of now, and wait for its end.

        Args:
            flow_run: keeps its id; what its tasks have persisted is not computed again.
        """
        return await self._to_its_end(flow_run.parameters, flow_run)

    def with_options(self, **options: Any) -> SliceFlow[P, R]:
        """The same flow with other options, bound to the same pool."""
        changed = super().with_options(**options)
        return bound(changed, {**changed.__dict__, "_is_leaving": self._is_leaving})

    def as_it_travels(self) -> SliceFlow[P, R]:
        """The same, which is a plain flow where it is unpickled: the image needs Prefect, nothing of ours."""
        leaving = copy(self)
        leaving._is_leaving = True
        return leaving

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not self._is_leaving:
            return super().__reduce_ex__(protocol)
        return travelling.reduced({name: value for name, value in self.__dict__.items() if name != "_is_leaving"})

    def _parameters(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """By name. Raises Prefect's errors for a call that the flow would not take."""
        return get_call_parameters(self, args, dict(kwargs))

    def _submitted(
        self, parameters: dict[str, Any], wait_for: Any, begun: list[UUID]
    ) -> tuple[SliceRun[R], psutil.Process | None]:
        found: Any = run_coro_as_sync(self._submit(parameters, None, wait_for, begun))
        return found[0], found[1]

    async def _submit(
        self, parameters: dict[str, Any], again: FlowRun | None, wait_for: Any, begun: list[UUID]
    ) -> tuple[SliceRun[R], psutil.Process | None]:
        """begun: gets the run's number as soon as there is one."""
        check_server_lasts()
        for future in wait_for or ():
            await anyio.to_thread.run_sync(future.wait)
        async with get_client() as client:
            sent = await send(client, self, parameters, again, lambda run: begun.append(run.id))
        _tell(sent.run, self.work_pool)
        return SliceRun(sent.run.id), await start_companion(self.work_pool, sent.run.id, sent.job_variables)

    async def _leave_to_workers(self, parameters: dict[str, Any]) -> SliceRun[R]:
        check_server_lasts()
        async with get_client() as client:
            sent = await send(client, self, parameters)
            await client.set_flow_run_state(sent.run.id, Scheduled())
        _tell(sent.run, self.work_pool)
        return SliceRun(sent.run.id)

    async def _to_its_end(
        self,
        parameters: dict[str, Any],
        again: FlowRun | None = None,
        *,
        return_state: bool = False,
        wait_for: Any = None,
    ) -> Any:
        begun: list[UUID] = []
        try:
            run, companion = await self._submit(parameters, again, wait_for, begun)
            await run.wait_async()
            await wait_until_gone(companion)
        except asyncio.CancelledError:
            await _cancel(begun)
            raise
        return run.state if return_state else await run.aresult()


def bound(flow: Any, attributes: Mapping[str, Any]) -> SliceFlow[Any, Any]:
    """A flow of ours with these attributes."""
    made: SliceFlow[Any, Any] = SliceFlow.__new__(SliceFlow)
    made.__dict__.update({**flow.__dict__, **attributes})
    return made


def _tell(run: FlowRun, work_pool: str) -> None:
    """What a caller sees while it waits: where to look."""
    log.info("Flow run %r goes to a slice of work pool %r: %s", run.name, work_pool, url_for(run) or run.id)


async def _cancel(begun: Sequence[UUID]) -> None:
    """Ask for its end; whoever sees to the run does the rest. One that nobody sees to yet has its end at once."""
    why = "The caller was interrupted."
    for flow_run in begun:
        log.warning("Interrupted: flow run %s is being cancelled.", flow_run)
        with anyio.move_on_after(ASKING_SECONDS, shield=True):
            try:
                async with get_client() as client:
                    run = await client.read_flow_run(flow_run)
                    state = Cancelling if run.infrastructure_pid else Cancelled
                    await client.set_flow_run_state(flow_run, state(message=why))
            except (httpx.HTTPError, ObjectNotFound) as exc:
                log.warning("Flow run %s could not be cancelled: %s. Cancel it by hand.", flow_run, exc)
