"""Which slice does a driver hold, and how does it come to one?"""

from __future__ import annotations

import anyio

from prefect_tpu.infra.backends.base import Attempt, Backend, Held, Refused
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher import rehearsed
from prefect_tpu.infra.launcher.news import Announcer
from prefect_tpu.infra.launcher.offers import Offers
from prefect_tpu.infra.launcher.step import Action, Provision, Submit
from prefect_tpu.infra.launcher.waiting import WaitNote
from prefect_tpu.infra.state import Offer, Waiting
from prefect_tpu.infra.storage import Storage

LOOK_SECONDS = 0.5  # how often a free slice is looked for


class Holding:
    """The slice of one driver, or none, and the offers it may choose from."""

    def __init__(self, job: SliceJob, storage: Storage, backend: Backend, tell: Announcer) -> None:
        self.offers = Offers(job, anyio.current_time)
        self.held: Held | None = None
        self.waiting = WaitNote(storage, tell)
        self._job, self._storage, self._backend, self._tell = job, storage, backend, tell

    @property
    def offer(self) -> Offer | None:
        """Of the slice that is held."""
        return None if self.held is None else self.held.offer

    async def seek(self, attempt: Attempt, offer: Offer) -> Held | Waiting | Refused:
        """Ask for a slice of this offer; it is held from now on where there is one."""
        answer = await self._backend.provision(attempt, offer)
        if isinstance(answer, Held):
            self.waiting.end()
            self.held = answer
            self.offers.got()
        return answer

    async def go_without(self, number: int, offer: Offer, answer: Waiting | Refused) -> None:
        """No slice of this offer: never, or not yet."""
        if isinstance(answer, Refused):
            self.offers.refuse(offer, answer.reason, is_barred=answer.is_barred)
            self._say_refused(number, offer)
        else:
            self.offers.wait_for(offer)
            self.waiting.say(number, answer.reason, self.offers.waited)
            await anyio.sleep(max(LOOK_SECONDS, self._backend.look_seconds))

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

    def _say_refused(self, number: int, offer: Offer) -> None:
        self._tell.say(number, f"{offer.accelerator} cannot be had: {self.offers.refused[offer]}")
