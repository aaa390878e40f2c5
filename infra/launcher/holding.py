"""Which slice does a driver hold, and how does it come to one?"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import anyio

from prefect_tpu.infra.backends.base import Attempt, Backend, Held, Refused
from prefect_tpu.infra.errors import PlatformError, RefusedForGood, UsageError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher import rehearsed
from prefect_tpu.infra.launcher.actions import Action, Provision, Submit
from prefect_tpu.infra.launcher.keeping import Keeping
from prefect_tpu.infra.launcher.news import Announcer
from prefect_tpu.infra.launcher.offers import Offers
from prefect_tpu.infra.launcher.view import Live, View
from prefect_tpu.infra.launcher.waiting import WaitNote
from prefect_tpu.infra.launcher.written import Written
from prefect_tpu.infra.state import Offer, Waiting
from prefect_tpu.infra.storage import Storage

LOOK_SECONDS = 0.5  # how often a free slice is looked for
REST_LOOKS = 30  # a minute, where a cluster is looked at


class Holding:
    """The slice of one driver, or none, the offers it may choose from, and the chips that it may have."""

    def __init__(self, job: SliceJob, storage: Storage, backend: Backend, tell: Announcer, keeping: Keeping) -> None:
        self.offers = Offers(job, anyio.current_time, REST_LOOKS * backend.look_seconds)
        self.held: Held | None = None
        self.is_asking = False  # for a slice that no attempt was planned for
        self.waiting = WaitNote(storage, tell)
        self.chips = keeping
        self._job, self._storage, self._backend, self._tell = job, storage, backend, tell

    @property
    def offer(self) -> Offer | None:
        """Of the slice that is held."""
        return None if self.held is None else self.held.offer

    def view(self, written: Written, live: Live | None) -> View:
        """What decides what comes next, as this driver sees it now."""
        ended, offers = written.ended, self.offers
        return View(
            job=self._job,
            offers=offers.all,
            ended=ended,
            last_number=written.last_number,
            since_last_end=time.time() - (ended[-1].ended or 0.0) if ended else 0.0,
            live=live,
            refused=offers.refused,
            barred=offers.barred,
            lacking=offers.lacking,
            short_of=offers.short_of,
            dry=offers.dry,
            rest=offers.rest,
            awaited=offers.awaited,
            held=self.offer,
            waited=offers.waited,
            is_stop_asked=written.is_stop_asked,
        )

    async def seek(self, attempt: Attempt, offer: Offer) -> Held | Waiting | Refused:
        """Ask for a slice of this offer; it is held from now on where there is one."""
        answer = await self._lacking_chips(offer) or await self._ask(attempt, offer)
        if isinstance(answer, Held):
            self.is_asking = False
            await self.waiting.settle(ended=True)
            self.held = answer
            self.offers.got()
        return answer

    async def _lacking_chips(self, offer: Offer) -> Waiting | Refused | None:
        """Why no slice may be sought; offers whose chips are counted apart have their turn where too few are free."""
        answer = None if self.held is not None else await self.chips.obtain(offer)
        if not isinstance(answer, Waiting):
            return answer
        is_apart = any(self.chips.is_another_kind(offer, o) for o in self.offers.all if o not in self.offers.refused)
        return replace(answer, is_dry=answer.is_dry and is_apart)

    async def _ask(self, attempt: Attempt, offer: Offer) -> Held | Waiting | Refused:
        """Where one cluster of several is not there, or is away, the others are asked meanwhile."""
        try:
            return await self._backend.provision(attempt, offer)
        except (UsageError, RefusedForGood) as exc:
            if not self.offers.are_elsewhere(offer):
                raise
            return Refused(reason=str(exc), is_barred=True)
        except PlatformError as exc:
            if not self.offers.are_elsewhere(offer):
                raise
            return Waiting(reason=str(exc), is_dry=True)

    async def go_without(self, number: int, offer: Offer, answer: Waiting | Refused) -> None:
        """No slice of this offer: never, or not yet. Others may have its chips unless the slice is on its way."""
        if self.held is None and (isinstance(answer, Refused) or answer.is_dry):
            await self.chips.give_back()
        if isinstance(answer, Refused):
            self.offers.refuse(offer, answer.reason, is_barred=answer.is_barred)
            self._say_refused(number, offer)
        else:
            self.offers.wait_for(offer, answer)
            name = f"{self.offers.named(offer)}: " if len(self.offers.all) > 1 else ""
            self.waiting.say(number, f"{name}{answer.reason}", self.offers.waited, answer.what)
            await self.waiting.settle()
            if not answer.is_dry:
                await self.pause()

    async def rest(self, number: int, seconds: float) -> None:
        """Nothing is to be had for so long; somebody may ask for a stop meanwhile."""
        said = "; ".join(f"{self.offers.named(o)}: {why.rstrip('.')}" for o, why in self.offers.lacking.items())
        self.waiting.say(number, f"no capacity, and asked again soon: {said}", self.offers.waited)
        await self.waiting.settle()
        await self.pause(seconds)

    async def pause(self, at_most: float = math.inf) -> None:
        """Until the next look."""
        await anyio.sleep(min(at_most, max(LOOK_SECONDS, self._backend.look_seconds)))

    def lose(self, action: Action) -> bool:
        """Strike the drill that takes the offer away on which the action would begin an attempt; False without one."""
        offer = action.offer if isinstance(action, Provision) else self.offer
        if not isinstance(action, Provision | Submit) or offer is None:
            return False
        reason = rehearsed.strike_stockout(self._storage, self._job, action.number, offer)
        if reason is None:
            return False
        self.offers.refuse(offer, reason)
        self._say_refused(action.number, offer)
        return True

    def tire(self) -> None:
        """Go on to the next offer where one was waited for too long."""
        if (tired_of := self.offers.tire()) is not None:
            self._say_refused(0, tired_of)

    async def let_go(self) -> None:
        """Give back what is held; nothing of it is touched while its hosts live."""
        if self.held is not None:
            held, self.held = self.held, None
            await self._backend.release(held)

    async def give_up(self, *, is_ours: bool) -> None:
        """Leave nothing behind of what is held, or was asked for; what is made for the job may be a successor's now."""
        if self.held is not None and (is_ours or not self.held.serves_once):
            await self.let_go()
        elif self.held is None and self.is_asking and is_ours:
            await self._backend.withdraw(self._job, self._storage.url)
        self.is_asking = False

    def _say_refused(self, number: int, offer: Offer) -> None:
        self._tell.say(number, f"{self.offers.named(offer)} cannot be had: {self.offers.refused[offer]}")
