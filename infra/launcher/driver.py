"""Drives one job: gathers the facts, asks `step`, performs the action, begins again.

Any process may do this at any time; whoever comes second adopts what it finds.
"""

from __future__ import annotations

import time

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Attempt, Backend, Held, Refused
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.errors import Failure, PlatformError
from prefect_tpu.infra.job import AttemptSummary, JobResult, SliceJob
from prefect_tpu.infra.launcher import checkpoints, history, rehearsed, values
from prefect_tpu.infra.launcher.following import Following, follow, look
from prefect_tpu.infra.launcher.ledger import Ledger
from prefect_tpu.infra.launcher.news import Announcer, Listener, nobody
from prefect_tpu.infra.launcher.offers import Offers
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
from prefect_tpu.infra.launcher.stop_question import AsksToStop, StopQuestion, never_stops
from prefect_tpu.infra.plan import HostPlan, RestorePoint
from prefect_tpu.infra.policy.failures import with_saves
from prefect_tpu.infra.state import HostPhase, JobEvent, JobState, Observation, Offer, Waiting
from prefect_tpu.infra.storage import LocalStorage

LOOK_SECONDS = 0.5  # how often a wish to stop and a free slice are looked for
PRUNE_SECONDS = 60.0


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
        self._stop_question, self._tasks = StopQuestion(asks_to_stop, tasks), tasks
        self._offers = Offers(job, storage, anyio.current_time)
        self._ledger = Ledger(storage)
        self._tell = Announcer(job.name, listen)
        self._held: Held | None = None
        self._lacking: int | None = None  # the attempt that was planned, has no host yet and no slice
        self._following: Following | None = None
        self._is_leaving = self._wrote_stop = False
        self._successor: str | None = None
        self._next_prune = 0.0
        self._backed_off_after = 0

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
            is_next = isinstance(action, Submit) and number is not None
            if is_next or (self._is_leaving and self._following is None):
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
        action = self._next()
        if isinstance(action, Submit) and not self._is_leaving:
            return f"attempt {action.number} goes on on it"
        await self.let_go()
        return None

    async def leave(self) -> None:
        """The driver must go: end the job where a stop was asked for, else only make its hosts save and leave."""
        reason = await self._stop_question.reason(now=True)
        if reason or history.is_stop_asked(self.storage):
            history.ask_to_stop(self.storage, reason or "asked before")
            return
        self._is_leaving = True
        if self._following is not None:
            await self._following.tell_to_leave()

    async def detach(self) -> None:
        """Leave the hosts running: a wish of ours that they stop is withdrawn, unless they have heard of it."""
        if self._wrote_stop and not (self._following and self._following.was_told_to_leave):
            history.withdraw_stop(self.storage)

    async def end_old_stop(self) -> None:
        """Bring a job to its end that was asked to stop, and then its driver was gone; it may go on after that."""
        await self.launch()
        await self.next_attempt()
        if self._tell.state is JobState.STOPPED:
            self._tell.move(JobEvent.CONTINUED)

    def give_way(self, successor: str) -> None:
        """Another process drives the job now: whoever waits for this one hears it at its next look."""
        self._successor = successor

    async def end_if_stopped(self) -> None:
        """Write the end of a job that was asked to stop and has nothing left to wait for."""
        if not self._is_leaving and self._successor is None and history.is_stop_asked(self.storage):
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
        if self._successor is not None:
            raise PlatformError(
                f"Job {self.job.name!r} is driven by {self._successor} now: this process stood still for too long."
                " Run the same name again to follow it."
            )
        rehearsed.obey(self.storage, self.job)
        await self._ask_whether_to_stop()
        return self._next()

    def _next(self) -> Action:
        """What is due; in a rehearsal the offer of the next attempt may go just before it begins."""
        if (tired_of := self._offers.tire()) is not None:
            self._say_refused(0, tired_of)
        action = step(self._view())
        while isinstance(action, Provision | Submit):
            offer = action.offer if isinstance(action, Provision) else self._held_offer
            if not rehearsed.strike_stockout(self.storage, self.job, action.number, offer):
                break
            self._say_refused(action.number, offer)
            action = step(self._view())
        return action

    def _view(self) -> View:
        numbers = history.attempt_numbers(self.storage)
        ended = history.ended_of_round(self.storage)
        return View(
            job=self.job,
            offers=self._offers.all,
            ended=ended,
            last_number=max(numbers, default=0),
            since_last_end=time.time() - (ended[-1].ended or 0.0) if ended else 0.0,
            live=self._live(),
            refused=self._offers.refused,
            held=self._held.offer if self._held else None,
            waited=self._offers.waited,
            is_stop_asked=history.is_stop_asked(self.storage),
        )

    def _live(self) -> Live | None:
        numbers = history.attempt_numbers(self.storage)
        if not numbers or history.read_outcome(self.storage, numbers[-1]) is not None:
            return None
        plan = history.read_plan(self.storage, numbers[-1])
        if self._following is not None:
            return self._following.live(plan)
        return Live(number=plan.attempt, accelerator=plan.accelerator, is_lacking=plan.attempt == self._lacking)

    def _number(self, action: Action) -> int:
        numbers = history.attempt_numbers(self.storage)
        return action.number if isinstance(action, Provision | Submit | Attach) else numbers[-1]

    async def _ask_whether_to_stop(self) -> None:
        if history.is_stop_asked(self.storage):
            return
        reason = await self._stop_question.reason()
        if reason:
            self._wrote_stop = history.ask_to_stop(self.storage, reason)

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
        self._tell.move(JobEvent.SLICE_WANTED)
        await self.let_go()  # of a slice whose like is refused since
        answer = await self._backend.provision(self._attempt(action.number), action.offer)
        if isinstance(answer, Held):
            self._take(answer)
        else:
            await self._go_without(action.number, action.offer, answer)

    def _take(self, held: Held) -> None:
        self._held = held
        self._offers.got()

    async def _go_without(self, number: int, offer: Offer, answer: Waiting | Refused) -> None:
        """No slice of this offer: never, or not yet."""
        if isinstance(answer, Refused):
            self._offers.refuse(offer, answer.reason)
            self._say_refused(number, offer)
        else:
            self._offers.wait_for(offer)
            self._tell.say(number, f"waiting for a slice: {answer.reason}")
            await anyio.sleep(LOOK_SECONDS)

    def _say_refused(self, number: int, offer: Offer) -> None:
        self._tell.say(number, f"{offer.accelerator} cannot be had: {self._offers.refused[offer]}")

    async def _submit(self, action: Submit) -> None:
        """The plan first, create-only: whoever loses adopts the winner's."""
        assert self._held is not None, "step submits only on a slice that is held"
        plan = self._backend.plan(self._attempt(action.number, await self._choose(action.number)), self._held).hosts
        won = self.storage.put_if_absent(layout.plan(action.number), plan.to_json())
        if not won:
            plan = history.read_plan(self.storage, action.number)
        instead_of = self._offers.instead_of(Offer(accelerator=plan.accelerator))
        facts = {"accelerator": plan.accelerator, "hosts": plan.hosts, "instead_of": instead_of}
        self._ledger.write(action.number, Event.SUBMITTED, **facts)
        self._tell.move(JobEvent.SUBMITTED)
        self._tell.began(plan, instead_of)
        await self._follow(plan)

    async def _attach(self, action: Attach) -> None:
        """Somebody began this attempt. Hosts that never started are started now, if the slice is ours."""
        plan = history.read_plan(self.storage, action.number)
        first = await look(self._backend, self._backend.attach(plan))
        pending = [host.phase is HostPhase.PENDING for host in first.hosts]
        if any(pending) and self._held is None and not history.is_stop_asked(self.storage):
            offer = Offer(accelerator=plan.accelerator)
            answer = await self._backend.provision(self._attempt(action.number), offer)
            if isinstance(answer, Held):
                self._take(answer)
            elif all(pending):
                self._lacking = plan.attempt
                await self._go_without(plan.attempt, offer, answer)
                return
        self._tell.move(JobEvent.SUBMITTED)
        self._tell.say(action.number, "found running; following it")
        await self._follow(plan)

    async def _follow(self, plan: HostPlan) -> None:
        is_unwanted = history.is_stop_asked(self.storage)  # then what has not begun never does
        handle = self._backend.attach(plan) if is_unwanted else await self._backend.submit(plan, self._held)
        self._following = await follow(self._backend, handle, self._tell.saw, self._tasks)
        if self._is_leaving:  # since before there was anybody to tell
            await self._following.tell_to_leave()

    async def _watch(self) -> None:
        assert self._following is not None, "step watches only what is followed"
        await self._following.news(at_most=LOOK_SECONDS)
        if anyio.current_time() > self._next_prune:
            self._next_prune = anyio.current_time() + PRUNE_SECONDS
            await self._prune()

    async def _tell_to_leave(self) -> None:
        assert self._following is not None, "step stops only what is followed"
        self._tell.move(JobEvent.STOP_ASKED)
        self._tell.say(self._following.seen.attempt, "stopping: the hosts save and leave")
        await self._following.tell_to_leave()

    async def _close(self, action: Close) -> None:
        if self._following is None:  # planned, and its slice was not to be had again: nothing of it ever began
            self._tell.move(JobEvent.SUBMITTED)
            handle = self._backend.attach(history.read_plan(self.storage, history.attempt_numbers(self.storage)[-1]))
            self._following = await follow(self._backend, handle, self._tell.saw, self._tasks)
        failure = history.judge(self.storage, self._following.seen.attempt, action.failure)
        await self._following.end()
        summary = self._summary(self._following.seen, failure)
        history.write_outcome(self.storage, summary)
        self._ledger.write(summary.number, Event.ENDED, outcome=summary.outcome, last_step=summary.last_step)
        self._following = None
        if not isinstance(step(self._view()), Finish):
            self._tell.move(JobEvent.RETRY_DUE)
        self._tell.ended(summary)
        await self._prune()

    def _summary(self, seen: Observation, failure: Failure | None) -> AttemptSummary:
        number = seen.attempt
        saved = [point.step for point in checkpoints.sealed(self.storage) if point.attempt == number]
        return AttemptSummary(
            number=number,
            accelerator=history.read_plan(self.storage, number).accelerator,
            started=self._ledger.started(number),
            ended=time.time(),
            outcome="succeeded" if failure is None else failure.kind.value,
            failure=failure,
            first_step=seen.progress.first_step,
            last_step=seen.progress.step,
            saved_step=max(saved, default=None),
            instead_of=self._ledger.instead_of(number),
        )

    async def _back_off(self, action: BackOff) -> None:
        if (last := self._number(action)) != self._backed_off_after:  # once, not at each look
            self._backed_off_after = last
            self._tell.say(0, f"next attempt in {action.seconds:.0f} s: {action.reason}")
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
                failure=with_saves(action.failure, [attempt.saved_step for attempt in ended]),
            ),
        )
        self._tell.move(JobEvent(action.state.value))
        self._tell.say(ended[-1].number if ended else 0, action.state.value)

    # -- small things -------------------------------------------------------------------------------

    @property
    def _held_offer(self) -> Offer:
        assert self._held is not None, "step submits only on a slice that is held"
        return self._held.offer

    async def _choose(self, number: int) -> RestorePoint | None:
        """Where an attempt starts from: in a thread, for a checkpoint is read before it is chosen."""
        return await anyio.to_thread.run_sync(lambda: checkpoints.newest_whole(self.storage, below=number))

    def _attempt(self, number: int, restore: RestorePoint | None = None) -> Attempt:
        return Attempt(job=self.job, number=number, output=self.storage.url, restore=restore)

    async def _prune(self) -> None:
        live = self._live()
        in_use = history.read_plan(self.storage, live.number).restore if live else None
        await anyio.to_thread.run_sync(lambda: checkpoints.prune(self.storage, in_use=in_use))
