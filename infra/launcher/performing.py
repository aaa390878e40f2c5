"""What is due for a job, by what this process sees and holds, and how is it carried out?

Decides nothing itself: `step` does, over the facts that are gathered here.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import assert_never

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync  # storages are synchronous, and others are driven in the same loop

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends import crowd
from prefect_tpu.infra.backends.base import Attempt, Backend, Held
from prefect_tpu.infra.backends.outages import OUTAGE_SECONDS, outlast
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher import checkpoints, history, summing_up
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
from prefect_tpu.infra.launcher.ending import Ending
from prefect_tpu.infra.launcher.following import Following, follow, look
from prefect_tpu.infra.launcher.holding import LOOK_SECONDS, Holding
from prefect_tpu.infra.launcher.keeping import Keeping
from prefect_tpu.infra.launcher.ledger import Ledger
from prefect_tpu.infra.launcher.news import Announcer
from prefect_tpu.infra.launcher.permits import Permits
from prefect_tpu.infra.launcher.rehearsed import refused
from prefect_tpu.infra.launcher.step import step
from prefect_tpu.infra.launcher.view import Live, View
from prefect_tpu.infra.launcher.written import Reader, Written
from prefect_tpu.infra.plan import HostPlan, RestorePoint
from prefect_tpu.infra.policy.capacity import to_avoid
from prefect_tpu.infra.policy.offers import offer_of
from prefect_tpu.infra.state import HostPhase, JobEvent, Observation
from prefect_tpu.infra.storage import Storage

PRUNE_SECONDS = 60.0
UNTOLD_PRUNE_SECONDS = 600.0  # where nobody says that anything was saved: regions of a flow need not
FRESH_LOOKS = 0.25  # of a look: what one decision was made by serves the next one, if nothing was done in between
TIDY_LOOKS = 15  # half a minute, where a cluster is looked at: it makes a pool for minutes, and deletes none meanwhile


class Performer:
    """The hands of one driver: the slice it holds, the attempt it follows.

    is_leaving: the driver must go, so whatever is followed from now on is told to leave too.
    """

    def __init__(
        self, job: SliceJob, storage: Storage, backend: Backend, tell: Announcer, tasks: TaskGroup, permits: Permits
    ) -> None:
        self.job, self.storage, self._backend, self._tell, self._tasks = job, storage, backend, tell, tasks
        self.slice = Holding(job, storage, backend, tell, Keeping(job, storage, permits, tell, tasks))
        self.following: Following | None = None
        self.is_leaving = False
        self._ledger = Ledger(storage)
        self._lacking: int | None = None  # the attempt that was planned, has no host yet and no slice
        self._reader = Reader(storage)
        self._written: Written | None = None
        self._looked = 0.0
        self._has_changed = True  # by our own hands, since the last look
        self._next_prune = 0.0
        self._pruned_at: tuple[int, int | None] | None = None  # the attempt, and the step that it had saved
        self._backed_off_after = 0

    async def look(self) -> Written:
        """What is written down: by a new look where the last one is older than the backend wants them to be."""
        if self._written is None or anyio.current_time() - self._looked >= crowd.idle(self._backend.look_seconds):
            return await self.look_anew()
        return self._written

    async def look_anew(self) -> Written:
        """In a thread: a bucket takes its time, and the hosts are looked at meanwhile."""
        self._looked, self._has_changed = anyio.current_time(), False
        patience = OUTAGE_SECONDS if self._written else 0.0
        try:
            self._written = await outlast(lambda: run_sync(self._reader.look), patience)
        except BaseException:  # cut short: what was seen before is no newer for it
            self._looked = -math.inf
            raise
        self.slice.offers.rehearsed = refused(self.job, self._written.notes, self._written.obeyed)
        self.slice.chips.is_noted = self._written.has_permit
        return self._written

    async def look_again(self) -> Written:
        """As good as a new look, for one decision after another."""
        is_fresh = anyio.current_time() - self._looked < FRESH_LOOKS * self._backend.look_seconds
        if self._written is None or self._has_changed or not is_fresh or self.job.drills:
            return await self.look_anew()
        return self._written

    def nudge(self) -> None:
        """Look anew, now: somebody knows that something has changed."""
        self._looked = -math.inf
        if self.following is not None:
            self.following.nudge()

    async def next(self) -> Action:
        """What is due; in a rehearsal the offer of the next attempt may go just before it begins.

        What changes anything is decided by a new look: between two looks somebody may have asked for a stop. An attempt
        whose hosts have ended ends whatever was written since; then it is looked while its end is summed up.
        """
        self.slice.tire()
        action = step(self._view(await self.look()))
        if not isinstance(action, Watch | BackOff | Rest) and not self._is_plain(action):
            action = step(self._view(await self.look_again()))
        while self.slice.lose(action):
            action = step(self._view(await self.look_anew()))
        return action

    def _is_plain(self, action: Action) -> bool:
        """Whether it is the end of what is followed by what its hosts themselves have done."""
        following = self.following
        if not isinstance(action, Close) or following is None or self.job.drills:
            return False
        return not following.was_told_to_leave and following.seen.waiting is None

    def _view(self, written: Written) -> View:
        return self.slice.view(written, self._live(written))

    async def live(self) -> Live | None:
        """The attempt that has a plan and no outcome."""
        return self._live(await self.look_again())

    def _live(self, written: Written) -> Live | None:
        plan = written.live
        if plan is None:
            return None
        if self.following is not None:
            return self.following.live(plan)
        return Live(number=plan.attempt, offer=offer_of(plan), is_lacking=plan.attempt == self._lacking)

    async def number(self, action: Action) -> int:
        """Of the attempt that the action is about."""
        if isinstance(action, Provision | Rest | Submit | Attach):
            return action.number
        return (await self.look()).last_number

    async def leave(self) -> None:
        """Make the hosts of what is followed save and leave; what has no slice yet has nothing to save, and stays."""
        self.is_leaving = True
        if self.following is None:
            return
        if self.following.seen.waiting is None:
            await self.following.tell_to_leave()
        else:
            self.following.let_alone()
            self.following = None

    async def give_chips_back(self) -> None:
        """Where neither a slice is held nor an attempt lives."""
        if self.slice.chips.is_any and self.slice.held is None and await self.live() is None:
            await self.slice.chips.give_back()

    async def end(self) -> None:
        """End whatever lives of the attempt that is followed, and write nothing of it."""
        if self.following is not None:
            await self.following.end()
            self.following = None

    async def perform(self, action: Action) -> None:
        """Carry out what is due."""
        self._has_changed = True
        match action:
            case Provision():
                await self._provision(action)
            case Rest():
                await self.slice.rest(action.number, action.seconds)
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
            case _:
                assert_never(action)

    async def _provision(self, action: Provision) -> None:
        self._tell.move(JobEvent.SLICE_WANTED)
        await self.slice.let_go()  # of one whose like is refused since
        self.slice.is_asking = True
        answer = await self.slice.seek(self._attempt(action.number), action.offer)
        if not isinstance(answer, Held):
            await self.slice.go_without(action.number, action.offer, answer)

    async def _submit(self, action: Submit) -> None:
        """The plan first, create-only: whoever loses adopts the winner's."""
        assert self.slice.held is not None, "step submits only on a slice that is held"
        attempt = self._attempt(action.number, await self._choose(action.number))
        if attempt.avoid:  # what is held was chosen before these places were lost
            offer = self.slice.held.offer
            if not isinstance(answer := await self.slice.seek(attempt, offer), Held):
                await self.slice.go_without(action.number, offer, answer)
                return
        plan = self._backend.plan(attempt, self.slice.held).hosts
        if not await run_sync(self.storage.put_if_absent, layout.plan(action.number), plan.to_json()):
            plan = await run_sync(history.read_plan, self.storage, action.number)
        self._has_changed = True
        missed = self.slice.offers.missed(offer_of(plan), (await self.look()).ended)
        place = {name: value for name in ("cluster", "zone") if (value := getattr(plan, name)) is not None}
        facts = {"accelerator": plan.accelerator, **place, "hosts": plan.hosts, "instead_of": "; ".join(missed) or None}
        await run_sync(partial(self._ledger.write, action.number, Event.SUBMITTED, **facts))
        self._tell.move(JobEvent.SUBMITTED)
        self._tell.began(plan, self.slice.offers.named(offer_of(plan)), missed)
        await self._follow(plan, age=0.0)

    async def _attach(self, action: Attach) -> None:
        """Somebody began this attempt. Hosts that never started are started now, if the slice is ours."""
        plan = await run_sync(history.read_plan, self.storage, action.number)
        first = await look(self._backend, self._backend.attach(plan))
        pending = [host.phase is HostPhase.PENDING for host in first.hosts]
        if any(pending) and self.slice.held is None and not await run_sync(history.is_stop_asked, self.storage):
            offer = offer_of(plan)
            if self._lacking == plan.attempt and self.slice.offers.dry.get(offer, 0.0) > 0.0:
                await self.slice.pause()
                return
            answer = await self.slice.seek(self._attempt(action.number), offer)
            if not isinstance(answer, Held) and all(pending):
                self._lacking = plan.attempt
                await self.slice.go_without(plan.attempt, offer, answer)
                return
        self._tell.move(JobEvent.SUBMITTED)
        self._tell.say(action.number, "found running; following it")
        submitted = await run_sync(self._ledger.submitted, plan.attempt)
        await self._follow(plan, age=max(0.0, time.time() - submitted.started))

    async def _follow(self, plan: HostPlan, age: float) -> None:
        is_unwanted = await run_sync(history.is_stop_asked, self.storage)  # then what has not begun never does
        handle = self._backend.attach(plan) if is_unwanted else await self._backend.submit(plan, self.slice.held)
        self.following = await follow(self._backend, handle, self._saw, self._tasks, age)
        self.slice.chips.claim(offer_of(plan))
        self._tasks.start_soon(self._tidy, plan, self.following)
        self._next_prune = anyio.current_time() + PRUNE_SECONDS
        if self.is_leaving:  # since before there was anybody to tell
            await self.leave()

    async def _tidy(self, plan: HostPlan, following: Following) -> None:
        """Beside the attempt, for its life may be long: what earlier tries left costs money."""
        while self.following is following and not await self._backend.tidy(self.job, plan):
            await anyio.sleep(TIDY_LOOKS * self._backend.look_seconds)

    async def _watch(self) -> None:
        following = self.following
        assert following is not None, "step watches only what is followed"
        await following.news(at_most=LOOK_SECONDS if following.is_pressing else crowd.idle(LOOK_SECONDS))
        self._tell_of_wait(following.seen)
        await self.slice.waiting.settle()
        await self._prune_in_time(following.seen)

    def _saw(self, seen: Observation) -> None:
        self._tell.saw(seen)
        self._tell_of_wait(seen)

    def _tell_of_wait(self, seen: Observation) -> None:
        """On each snapshot, and now and then between two, for time passes."""
        waited = self.following.waiting_for if self.following else None
        if seen.waiting is None:
            self.slice.waiting.end()
        else:
            self.slice.waiting.say(seen.attempt, seen.waiting.reason, waited or 0.0, seen.waiting.what)

    async def _tell_to_leave(self) -> None:
        assert self.following is not None, "step stops only what is followed"
        self._tell.move(JobEvent.STOP_ASKED)
        self._tell.say(self.following.seen.attempt, "stopping: the hosts save and leave")
        await self.following.tell_to_leave()

    async def _close(self, action: Close) -> None:
        if self.following is None:  # planned, and its slice was not to be had again: nothing of it ever began
            self._tell.move(JobEvent.SUBMITTED)
            plan = (await self.look()).live
            assert plan is not None, "step closes only what lives"
            handle = self._backend.attach(plan)
            self.following = await follow(self._backend, handle, self._saw, self._tasks)
        plan = await self._plan(self.following.seen.attempt)
        ending = Ending(job=self.job, storage=self.storage, ledger=self._ledger, tell=self._tell)
        look = self.look_again if self._is_plain(action) else self.look
        summary = await ending.of(self.following, plan, action.failure, look)
        await self.slice.waiting.settle(ended=True)
        self.following = None
        if not isinstance(step(self._view(await self.look_anew())), Finish):
            self._tell.move(JobEvent.RETRY_DUE)
        self._tell.ended(summary)
        await self._prune()

    async def _plan(self, number: int) -> HostPlan:
        """What was sent for an attempt; asked for where another process has begun a later one since."""
        if (newest := (await self.look()).newest) is not None and newest.attempt == number:
            return newest
        return await run_sync(history.read_plan, self.storage, number)

    async def _back_off(self, action: BackOff) -> None:
        if (last := await self.number(action)) != self._backed_off_after:  # once, not at each look
            self._backed_off_after = last
            self._tell.say(0, f"next attempt in {action.seconds:.0f} s: {action.reason}")
        await self.slice.pause(action.seconds)

    async def _finish(self, action: Finish) -> None:
        await self.slice.waiting.settle(ended=True)
        await self._backend.withdraw(self.job, self.storage.url)  # also what another driver asked for, and was killed
        result = await run_sync(summing_up.of_job, self.storage, self.job.name, action.state, action.failure)
        await run_sync(history.write_result, self.storage, result)
        self._tell.move(JobEvent(action.state.value))
        self._tell.say(result.attempts[-1].number if result.attempts else 0, action.state.value)

    async def _choose(self, number: int) -> RestorePoint | None:
        """Where an attempt starts from: in a thread, for a checkpoint is read before it is chosen."""
        return await run_sync(lambda: checkpoints.newest_whole(self.storage, below=number))

    def _attempt(self, number: int, restore: RestorePoint | None = None) -> Attempt:
        avoid = to_avoid(self._written.ended, time.time()) if self._written else ()
        return Attempt(job=self.job, number=number, output=self.storage.url, restore=restore, avoid=avoid)

    async def _prune_in_time(self, seen: Observation) -> None:
        """Once something was saved since; a look costs two lists of a bucket, and a process may drive hundreds."""
        saved, now = (seen.attempt, seen.progress.saved_step), anyio.current_time()
        if now > self._next_prune + (0.0 if saved != self._pruned_at else UNTOLD_PRUNE_SECONDS - PRUNE_SECONDS):
            self._next_prune, self._pruned_at = now + PRUNE_SECONDS, saved
            await self._prune()

    async def _prune(self) -> None:
        live = (await self.look()).live
        in_use = live.restore if live else None
        await run_sync(lambda: checkpoints.prune(self.storage, in_use=in_use))
        if self.job.program.kind == "flow":
            await run_sync(checkpoints.prune_regions, self.storage)
