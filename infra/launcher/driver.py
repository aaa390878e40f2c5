"""Drives one job: gathers the facts, asks `step`, performs the action, begins again.

Any process may do this at any time; whoever comes second adopts what it finds.
"""

from __future__ import annotations

import time

from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from prefect_tpu.infra.backends.base import Backend
from prefect_tpu.infra.errors import Failure, PlatformError
from prefect_tpu.infra.job import AttemptSummary, JobResult, SliceJob
from prefect_tpu.infra.launcher import history, rehearsed
from prefect_tpu.infra.launcher.actions import (
    Action,
    Attach,
    BackOff,
    Close,
    Finish,
    Provision,
    Rest,
    Submit,
    TellToLeave,
    Watch,
)
from prefect_tpu.infra.launcher.handed_back import HandedBack, handed_back
from prefect_tpu.infra.launcher.news import Announcer, Listener, nobody
from prefect_tpu.infra.launcher.performing import Performer
from prefect_tpu.infra.launcher.permits import UNCOUNTED, Permits
from prefect_tpu.infra.launcher.stop_question import AsksToStop, StopQuestion, never_stops
from prefect_tpu.infra.state import JobEvent, JobState
from prefect_tpu.infra.storage import Storage


class JobDriver:
    """One process's hands on one job. Not shared between threads; all waiting is asynchronous."""

    def __init__(
        self,
        job: SliceJob,
        storage: Storage,
        backend: Backend,
        listen: Listener = nobody,
        asks_to_stop: AsksToStop = never_stops,
        *,
        tasks: TaskGroup,
        permits: Permits = UNCOUNTED,
    ) -> None:
        self.job, self.storage, self._backend = job, storage, backend
        self._tell = Announcer(job.name, listen)
        self._hands = Performer(job, storage, backend, self._tell, tasks, permits)
        self._stop_question = StopQuestion(asks_to_stop, tasks)
        self._wrote_stop = False
        self.successor: str | None = None  # who drives the job now, where this process had to give way

    async def next_attempt(self) -> int | None:
        """The attempt to carry out next, after its back-off; None once the job has its end."""
        while not self._hands.is_leaving and not (await self._hands.look_anew()).has_result:
            action = await self._look()
            if isinstance(action, Finish):
                await self._hands.perform(action)
                return None
            if not isinstance(action, BackOff):
                return await self._hands.number(action)
            await self._hands.perform(action)
        return None

    async def provision(self) -> str | None:
        """Until a slice is held; the offer that was got, None where there is nothing to get any more."""
        while not self._hands.is_leaving and isinstance(action := await self._look(), Provision | Rest):
            await self._hands.perform(action)
        live, held = await self._hands.live(), self._hands.slice
        offer = live.offer if live else held.offer
        return None if offer is None else held.offers.named(offer)

    async def refusal(self) -> Failure | None:
        """Why no attempt begins any more, where the job ends by that; its end is written by `next_attempt`."""
        if self._hands.is_leaving:
            return None
        action = await self._look()
        return action.failure if isinstance(action, Finish) and action.state is JobState.FAILED else None

    async def launch(self) -> AttemptSummary | None:
        """Until the attempt has its outcome; None where it never began."""
        number = None
        while isinstance(action := await self._look(), Submit | Attach | Watch | TellToLeave | Close):
            is_next = isinstance(action, Submit) and number is not None
            if is_next or (self._hands.is_leaving and self._hands.following is None):
                break
            await self._hands.perform(action)
            number = number or (action.number if isinstance(action, Submit | Attach) else None)
            if isinstance(action, Close):
                break
        return None if number is None else (await self._hands.look_again()).outcomes.get(number)

    async def release(self) -> str | None:
        """Give the slice back, unless the next attempt begins on it at once; the reason where it is kept."""
        held = self._hands.slice.held
        if held is None:
            await self._hands.give_chips_back()
            return None
        action = await self._hands.next()
        if isinstance(action, Submit) and not self._hands.is_leaving and not held.serves_once:
            return f"attempt {action.number} goes on on it"
        await self._hands.slice.let_go()
        await self._hands.give_chips_back()
        return None

    async def leave(self) -> None:
        """The driver must go: end the job where a stop was asked for, else only make its hosts save and leave.

        An attempt that waits in a cluster keeps its place there, for whoever drives the job next.
        """
        reason = await self._stop_question.reason(now=True)
        is_asked = await run_sync(history.is_stop_asked, self.storage)
        if reason or is_asked:
            await run_sync(history.ask_to_stop, self.storage, reason or "asked before")
            return
        await self._hands.leave()

    async def detach(self) -> None:
        """Leave the hosts running: a wish of ours that they stop is withdrawn, unless they have heard of it."""
        if self._wrote_stop and not (self._hands.following and self._hands.following.was_told_to_leave):
            history.withdraw_stop(self.storage)

    async def end_old_stop(self) -> None:
        """Bring a job to its end that was asked to stop, and then its driver was gone; it may go on after that."""
        await self.launch()
        await self.next_attempt()
        if self._tell.state is JobState.STOPPED:
            self._tell.move(JobEvent.CONTINUED)

    def nudge(self) -> None:
        """Look at the job's files now: somebody knows that they have changed."""
        self._hands.nudge()

    def give_way(self, successor: str) -> None:
        """Another process drives the job now: whoever waits for this one hears it at its next look."""
        self.successor = successor
        self._hands.nudge()

    async def end_if_stopped(self) -> None:
        """Write the end of a job that was asked to stop and has nothing left to wait for."""
        if self._hands.is_leaving or self.successor is not None:
            return
        if await run_sync(history.is_stop_asked, self.storage):
            await self.next_attempt()

    async def let_go(self) -> None:
        """Give back what is still held or asked for; nothing is touched while its hosts live, or that is another's."""
        await self._hands.slice.give_up(is_ours=self.successor is None)
        if self.successor is None:
            await self._hands.give_chips_back()

    async def handed_back(self) -> HandedBack | None:
        """What somebody else is to know before the next attempt; None where none is due after a failed one."""
        return handed_back(self.job, await self._hands.look_again(), time.time())

    @property
    def is_following(self) -> bool:
        """Whether hosts of an attempt are looked after that were neither told to leave nor ended."""
        return self._hands.following is not None and not self._hands.following.was_told_to_leave

    @property
    def look_seconds(self) -> float:
        """How often the job's files may be looked at."""
        return self._backend.look_seconds

    @property
    def result(self) -> JobResult | None:
        return history.read_result(self.storage)

    async def _look(self) -> Action:
        if self.successor is not None:
            raise PlatformError(
                f"Job {self.job.name!r} is driven by {self.successor} now: this process stood still for too long."
                " Run the same name again to follow it."
            )
        written = await self._hands.look()
        if not written.is_there:
            await self._hands.end()
            raise PlatformError(
                f"The folder of job {self.job.name!r} was deleted or moved away while it ran, so its hosts were ended:"
                f" {self.storage.url}. Put it back and run the same name again to go on, or begin anew."
            )
        rehearsed.obey(self.storage, self.job, set(written.notes), written.obeyed)
        if not written.is_stop_asked:
            await self._hear_wishes()
        return await self._hands.next()

    async def hear_wishes(self) -> None:
        """Write down that somebody wants the job stopped, whoever drives it."""
        if not await run_sync(history.is_stop_asked, self.storage):
            await self._hear_wishes()

    async def _hear_wishes(self) -> None:
        reason = await self._stop_question.reason()
        if reason:
            self._wrote_stop = await run_sync(history.ask_to_stop, self.storage, reason)
            await self._hands.look_anew()
