"""Drives one job: gathers the facts, asks `step`, performs the action, begins again.

Any process may do this at any time; whoever comes second adopts what it finds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import aclosing

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Attempt, Backend, Handle, Held, Refused
from prefect_tpu.infra.errors import Failure
from prefect_tpu.infra.job import AttemptSummary, JobResult, SliceJob
from prefect_tpu.infra.launcher import checkpoints, history, values
from prefect_tpu.infra.launcher.ledger import Ledger
from prefect_tpu.infra.launcher.news import Listener, News, nobody
from prefect_tpu.infra.launcher.step import (
    Action,
    Attach,
    BackOff,
    Close,
    Finish,
    Live,
    Provision,
    Submit,
    TellToLeave,
    View,
    Watch,
    step,
)
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.state import HostPhase, JobEvent, JobState, Observation, Offer, move
from prefect_tpu.infra.storage import LocalStorage

LOOK_SECONDS = 0.5  # how often a wish to stop and a free slice are looked for
ASK_SECONDS = 2.0  # how often the one who may want a stop is asked
PRUNE_SECONDS = 60.0

AsksToStop = Callable[[], str | None]


def never_stops() -> str | None:
    return None


class JobDriver:
    """One process's hands on one job. Not shared between threads; all waiting is asynchronous."""

    def __init__(
        self,
        job: SliceJob,
        storage: LocalStorage,
        backend: Backend,
        listen: Listener = nobody,
        asks_to_stop: AsksToStop = never_stops,
        *,
        tasks: TaskGroup,
    ) -> None:
        self.job, self.storage, self._backend = job, storage, backend
        self._listen, self._asks_to_stop, self._tasks = listen, asks_to_stop, tasks
        self._offers = tuple(Offer(accelerator=name) for name in job.accelerators)
        self._ledger = Ledger(storage)
        self._state = JobState.QUEUED
        self._said: str | None = None
        self._refused: dict[Offer, str] = {}
        self._held: Held | None = None
        self._handle: Handle | None = None
        self._following: anyio.CancelScope | None = None
        self._has_news = anyio.Event()
        self._broken: Exception | None = None
        self._observation: Observation | None = None
        self._failing_since: float | None = None
        self._stopping_since: float | None = None
        self._is_leaving = False
        self._next_ask = 0.0
        self._next_prune = 0.0

    # -- the three phases of an attempt, and the end ------------------------------------------------

    async def next_attempt(self) -> int | None:
        """The attempt to carry out next, after its back-off; None once the job has its end."""
        while not self._is_leaving and self.result is None:
            action = await self._look()
            if isinstance(action, Finish):
                await self._perform(action)
                return None
            if not isinstance(action, BackOff):
                return self._number(action)
            await self._perform(action)
        return None

    async def provision(self) -> str | None:
        """Until a slice is held; the accelerator that was got, None where there is nothing to get any more."""
        while not self._is_leaving and isinstance(action := await self._look(), Provision):
            await self._perform(action)
        live = self._live()
        return live.accelerator if live else self._held.offer.accelerator if self._held else None

    async def launch(self) -> AttemptSummary | None:
        """Until the attempt has its outcome; None where it never began."""
        number = None
        while isinstance(action := await self._look(), Submit | Attach | Watch | TellToLeave | Close):
            if isinstance(action, Submit) and (number is not None or self._is_leaving):
                break
            await self._perform(action)
            number = number or (action.number if isinstance(action, Submit | Attach) else None)
            if isinstance(action, Close):
                break
        return None if number is None else history.read_outcome(self.storage, number)

    async def release(self) -> str | None:
        """Give the slice back, unless the next attempt begins on it at once; the reason where it is kept."""
        if self._held is None:
            return None
        action = step(self._view())
        if isinstance(action, Submit) and not self._is_leaving:
            return f"attempt {action.number} goes on on it"
        await self.let_go()
        return None

    async def leave(self) -> None:
        """The driver must go: end the job where a stop was asked for, else only make its hosts save and leave."""
        reason = await anyio.to_thread.run_sync(self._asks_to_stop)
        if reason or history.is_stop_asked(self.storage):
            history.ask_to_stop(self.storage, reason or "asked before")
            return
        self._is_leaving = True
        if self._handle is not None:
            self._stopping_since = self._stopping_since or anyio.current_time()
            await self._backend.stop(self._handle)

    async def end_if_stopped(self) -> None:
        """Write the end of a job that was asked to stop and has nothing left to wait for."""
        if not self._is_leaving and history.is_stop_asked(self.storage):
            await self.next_attempt()

    async def let_go(self) -> None:
        """Give back what is still held; nothing of it is touched while its hosts live."""
        if self._held is not None:
            held, self._held = self._held, None
            await self._backend.release(held)

    @property
    def result(self) -> JobResult | None:
        return history.read_result(self.storage)

    # -- facts --------------------------------------------------------------------------------------

    async def _look(self) -> Action:
        await self._ask_whether_to_stop()
        return step(self._view())

    def _view(self) -> View:
        numbers = history.attempt_numbers(self.storage)
        ended = history.ended_of_round(self.storage)
        return View(
            job=self.job,
            offers=self._offers,
            ended=ended,
            last_number=max(numbers, default=0),
            since_last_end=time.time() - (ended[-1].ended or 0.0) if ended else 0.0,
            live=self._live(),
            refused=self._refused,
            held=self._held.offer if self._held else None,
            is_stop_asked=history.is_stop_asked(self.storage),
        )

    def _live(self) -> Live | None:
        numbers = history.attempt_numbers(self.storage)
        if not numbers or history.read_outcome(self.storage, numbers[-1]) is not None:
            return None
        now = anyio.current_time()
        return Live(
            number=numbers[-1],
            accelerator=history.read_plan(self.storage, numbers[-1]).accelerator,
            observation=self._observation,
            failing_for=None if self._failing_since is None else now - self._failing_since,
            stopping_for=None if self._stopping_since is None else now - self._stopping_since,
        )

    def _number(self, action: Action) -> int:
        numbers = history.attempt_numbers(self.storage)
        return action.number if isinstance(action, Provision | Submit | Attach) else numbers[-1]

    async def _ask_whether_to_stop(self) -> None:
        if anyio.current_time() < self._next_ask or history.is_stop_asked(self.storage):
            return
        self._next_ask = anyio.current_time() + ASK_SECONDS
        reason = await anyio.to_thread.run_sync(self._asks_to_stop)
        if reason:
            history.ask_to_stop(self.storage, reason)

    # -- actions ------------------------------------------------------------------------------------

    async def _perform(self, action: Action) -> None:
        match action:
            case Provision():
                await self._provision(action)
            case Submit():
                await self._submit(action)
            case Attach():
                await self._attach(action)
            case Watch():
                await self._watch()
            case TellToLeave():
                await self._tell_to_leave()
            case Close():
                await self._close(action)
            case BackOff():
                await self._back_off(action)
            case Finish():
                await self._finish(action)

    async def _provision(self, action: Provision) -> None:
        self._move(JobEvent.SLICE_WANTED)
        answer = await self._backend.provision(self._attempt(action.number), action.offer)
        if isinstance(answer, Held):
            self._held = answer
        elif isinstance(answer, Refused):
            self._refused[action.offer] = answer.reason
            self._say(action.number, f"{action.offer.accelerator} cannot be had: {answer.reason}")
        else:
            self._say(action.number, f"waiting for a slice: {answer.reason}")
            await anyio.sleep(LOOK_SECONDS)

    async def _submit(self, action: Submit) -> None:
        """The plan first, create-only: whoever loses adopts the winner's."""
        assert self._held is not None, "step submits only on a slice that is held"
        plan = self._backend.plan(self._attempt(action.number), self._held).hosts
        won = self.storage.put_if_absent(layout.plan(action.number), plan.to_json())
        if not won:
            plan = history.read_plan(self.storage, action.number)
        self._ledger.write(action.number, "submitted", accelerator=plan.accelerator, hosts=plan.hosts)
        self._move(JobEvent.SUBMITTED)
        self._say(action.number, _began(plan))
        await self._follow(await self._backend.submit(plan, self._held))

    async def _attach(self, action: Attach) -> None:
        """Somebody began this attempt. Hosts that never started are started now, if the slice is ours."""
        plan = history.read_plan(self.storage, action.number)
        first = await self._first_look(self._backend.attach(plan))
        if any(host.phase is HostPhase.PENDING for host in first.hosts) and self._held is None:
            answer = await self._backend.provision(self._attempt(action.number), Offer(accelerator=plan.accelerator))
            if isinstance(answer, Held):
                self._held = answer
            elif all(host.phase is HostPhase.PENDING for host in first.hosts):
                self._say(action.number, f"waiting for a slice: {answer.reason}")
                await anyio.sleep(LOOK_SECONDS)
                return
        self._move(JobEvent.SUBMITTED)
        self._say(action.number, "found running; following it")
        await self._follow(await self._backend.submit(plan, self._held))

    async def _first_look(self, handle: Handle) -> Observation:
        async with aclosing(self._backend.observe(handle)) as snapshots:
            return await anext(aiter(snapshots))

    async def _follow(self, handle: Handle) -> None:
        self._handle = handle
        self._failing_since = self._stopping_since = None
        self._note(await self._first_look(handle))
        self._tasks.start_soon(self._keep_looking, handle)

    async def _keep_looking(self, handle: Handle) -> None:
        """Beside everything else, so that a quiet backend never delays what time alone makes due."""
        with anyio.CancelScope() as self._following:
            try:
                async with aclosing(self._backend.observe(handle)) as snapshots:
                    async for seen in snapshots:
                        self._note(seen)
            except Exception as exc:  # raised where somebody waits for news, not here where nobody does
                self._broken = exc
                self._has_news.set()

    async def _watch(self) -> None:
        """The next snapshot, or a moment's pause."""
        with anyio.move_on_after(LOOK_SECONDS):
            await self._has_news.wait()
        self._has_news = anyio.Event()
        if self._broken is not None:
            raise self._broken
        if anyio.current_time() > self._next_prune:
            self._next_prune = anyio.current_time() + PRUNE_SECONDS
            await self._prune()

    def _note(self, seen: Observation) -> None:
        self._observation = seen
        self._has_news.set()
        if seen.has_failure and self._failing_since is None:
            self._failing_since = anyio.current_time()
        if seen.has_joined and self._state is JobState.STARTING:
            self._move(JobEvent.JOINED)
            self._say(seen.attempt, "all hosts have met")
        self._listen(News(job=self.job.name, state=self._state, attempt=seen.attempt, observation=seen))

    async def _tell_to_leave(self) -> None:
        assert self._handle is not None, "step stops only what is followed"
        self._stopping_since = anyio.current_time()
        self._move(JobEvent.STOP_ASKED)
        self._say(self._handle["attempt"], "stopping: the hosts save and leave")
        await self._backend.stop(self._handle)

    async def _close(self, action: Close) -> None:
        assert self._handle is not None and self._observation is not None, "step closes only what is followed"
        number = self._handle["attempt"]
        if self._following is not None:
            self._following.cancel()
        await self._backend.forget(self._handle)
        summary = self._summary(number, action.failure)
        history.write_outcome(self.storage, summary)
        self._ledger.write(number, "ended", outcome=summary.outcome, last_step=summary.last_step)
        self._handle = self._following = self._observation = self._failing_since = self._stopping_since = None
        if not isinstance(step(self._view()), Finish):
            self._move(JobEvent.RETRY_DUE)
        self._listen(News(job=self.job.name, state=self._state, attempt=number, text=_ended(summary), ended=summary))
        await self._prune()

    def _summary(self, number: int, failure: Failure | None) -> AttemptSummary:
        assert self._observation is not None
        progress = self._observation.progress
        saved = [point.step for point in checkpoints.sealed(self.storage) if point.attempt == number]
        return AttemptSummary(
            number=number,
            accelerator=history.read_plan(self.storage, number).accelerator,
            started=self._ledger.started(number),
            ended=time.time(),
            outcome="succeeded" if failure is None else failure.kind.value,
            failure=failure,
            first_step=progress.first_step,
            last_step=progress.step,
            saved_step=max(saved, default=None),
        )

    async def _back_off(self, action: BackOff) -> None:
        self._say(0, f"next attempt in {action.seconds:.0f} s: {action.reason}")
        await anyio.sleep(min(LOOK_SECONDS, action.seconds))

    async def _finish(self, action: Finish) -> None:
        ended = history.all_ended(self.storage)
        value = None
        if action.state is JobState.SUCCEEDED:
            value = values.read(self.storage, ended[-1].number)
        history.write_result(
            self.storage,
            JobResult(
                job=self.job.name,
                state=action.state.value,
                attempts=ended,
                output=self.storage.url,
                value=value,
                failure=action.failure,
            ),
        )
        self._move(JobEvent(action.state.value))
        self._say(ended[-1].number if ended else 0, action.state.value)

    # -- small things -------------------------------------------------------------------------------

    def _attempt(self, number: int) -> Attempt:
        restore = checkpoints.newest_whole(self.storage, below=number)
        return Attempt(job=self.job, number=number, output=self.storage.url, restore=restore)

    async def _prune(self) -> None:
        live = self._live()
        in_use = history.read_plan(self.storage, live.number).restore if live else None
        await anyio.to_thread.run_sync(lambda: checkpoints.prune(self.storage, in_use=in_use))

    def _move(self, event: JobEvent) -> None:
        self._state = move(self._state, event)

    def _say(self, attempt: int, text: str) -> None:
        """Once per change: what is said again and again says nothing."""
        if text != self._said:
            self._said = text
            self._listen(News(job=self.job.name, state=self._state, attempt=attempt, text=text))


def _began(plan: HostPlan) -> str:
    hosts = "1 host" if plan.hosts == 1 else f"{plan.hosts} hosts"
    start = "from the beginning" if plan.restore is None else f"from step {plan.restore.step}"
    return f"{plan.accelerator}: {hosts} of {plan.devices_per_host} devices, {start}"


def _ended(summary: AttemptSummary) -> str:
    if summary.failure is None:
        return "succeeded"
    return f"{summary.failure.kind}: {summary.failure.message}"
