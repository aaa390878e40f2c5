"""Which chips may a job have, and how does it keep them for as long as its slice lives?

The permit is noted in the job's folder before it is relied on: whoever drives the job next renews that one, and takes
no second one.
"""

from __future__ import annotations

import logging

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Refused
from prefect_tpu.infra.errors import FailureKind, PrefectTpuError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.news import Announcer
from prefect_tpu.infra.launcher.permits import (
    Chips,
    Permit,
    Permits,
    Standing,
    chips_of,
    read_permit,
    write_permit,
)
from prefect_tpu.infra.state import Offer, WaitFor, Waiting
from prefect_tpu.infra.storage import Storage

log = logging.getLogger(__name__)
AGAIN_SECONDS = 10.0  # after nobody has answered; a permit outlives several of these


class Keeping:
    """The permit of one driver's job, or none.

    is_noted: the job's folder has one, by the newest look; an earlier driver may have left it.
    """

    def __init__(self, job: SliceJob, storage: Storage, permits: Permits, tell: Announcer, tasks: TaskGroup) -> None:
        self.is_noted = False
        self._job, self._storage, self._permits = job, storage, permits
        self._tell, self._tasks = tell, tasks
        self._permit: Permit | None = None
        self._has_lapsed = False
        self._lock = anyio.Lock()  # between what is asked for and what is renewed beside it
        self._over: anyio.Event | None = None  # set to end what renews beside it; None where nothing does

    @property
    def is_any(self) -> bool:
        """Whether the job has a permit, asks for one beside an attempt, or an earlier driver has left one."""
        return self._permit is not None or self._over is not None or self.is_noted

    def is_another_kind(self, one: Offer, other: Offer) -> bool:
        """Whether the chips of two offers are counted apart."""
        first, second = chips_of(self._job, one), chips_of(self._job, other)
        return (first and first.kind) != (second and second.kind)

    async def obtain(self, offer: Offer) -> Waiting | Refused | None:
        """Have the chips of an offer, before a slice of it is sought; None where it may be sought.

        Those of another offer are given back first.
        """
        chips = chips_of(self._job, offer)
        async with self._lock:
            await self._recall()
            if self._permit is not None and (lacking := await self._is_still_good(self._permit, chips)) is not None:
                return lacking
            if chips is None or self._permit is not None:
                return None
            answer = await self._permits.take(chips)
            if not isinstance(answer, Permit):
                return answer
            await self._have(answer)
        self._begin(chips)
        return None

    def claim(self, offer: Offer) -> None:
        """An attempt lives on this offer: have its chips counted, beside it and whatever is free."""
        if (chips := chips_of(self._job, offer)) is not None:
            self._begin(chips)

    async def give_back(self) -> None:
        """The job needs its chips no longer."""
        self._end()
        async with self._lock:
            await self._recall()
            await self._drop()

    async def _is_still_good(self, permit: Permit, chips: Chips | None) -> Waiting | None:
        """What is waited for where nobody knows. One that does not serve any more is dropped."""
        if permit.chips != chips:
            await self._drop()
            return None
        if self._over is not None and not self._has_lapsed:
            return None
        match await self._permits.renew(permit):
            case Standing.UNKNOWN:
                reason = f"whether the job still has its {permit.chips} nobody answers now; asked again"
                return Waiting(reason=reason, kind=FailureKind.NO_QUOTA, what=WaitFor.QUOTA)
            case Standing.LAPSED:
                await self._drop()
            case Standing.KEPT:
                self._has_lapsed = False
                self._begin(chips)
        return None

    async def _recall(self) -> None:
        """What an earlier driver has left, once."""
        if self._permit is None and self.is_noted:
            self._permit = await run_sync(read_permit, self._storage)
        self.is_noted = False

    async def _have(self, permit: Permit) -> None:
        """Note it; one that cannot be noted would be lost, so it is given back."""
        try:
            await run_sync(self._note, permit)
        except (PrefectTpuError, OSError):
            await self._permits.give_back(permit)
            raise
        self._permit, self._has_lapsed = permit, False

    def _note(self, permit: Permit) -> None:
        """Never in a folder that is gone: it would make it again."""
        if history.is_there(self._storage):
            write_permit(self._storage, permit)

    async def _drop(self) -> None:
        """Nothing is left of it, and nothing renews it."""
        self._end()
        if self._permit is not None:
            permit, self._permit = self._permit, None
            await self._permits.give_back(permit)
            await run_sync(self._storage.delete, layout.PERMIT)

    def _begin(self, chips: Chips) -> None:
        if self._over is None:
            self._over = anyio.Event()
            self._tasks.start_soon(self._keep_renewing, chips, self._over)

    def _end(self) -> None:
        if self._over is not None:
            self._over.set()
            self._over = None

    async def _keep_renewing(self, chips: Chips, over: anyio.Event) -> None:
        """At once, for a new permit is short, and then now and then."""
        while not over.is_set():
            async with self._lock:
                if over.is_set():
                    return
                try:
                    rest = await self._renew(chips)
                except (PrefectTpuError, OSError) as exc:
                    log.warning("The permit of job %s could not be kept: %s", self._job.name, exc)
                    rest = AGAIN_SECONDS
            with anyio.move_on_after(rest):
                await over.wait()

    async def _renew(self, chips: Chips) -> float:
        """Seconds until it is to be renewed again."""
        await self._recall()
        standing = Standing.LAPSED if self._permit is None else await self._permits.renew(self._permit)
        if standing is Standing.LAPSED:
            return await self._take_again(chips)
        self._has_lapsed = False
        longest = self._permits.renew_seconds
        return longest if standing is Standing.KEPT else min(AGAIN_SECONDS, longest)

    async def _take_again(self, chips: Chips) -> float:
        """What lives is not ended for want of a permit: it is told, and asked again."""
        self._has_lapsed = True
        if self._permit is not None:
            noted = await run_sync(read_permit, self._storage)
            if noted is not None and noted != self._permit:  # of a driver that took over from this one
                self._permit = noted
                return 0.0
        answer = await self._permits.take(chips)
        if isinstance(answer, Permit):
            await self._have(answer)
            return 0.0
        if answer is None:
            await self._drop()
        else:
            self._tell.say(0, f"goes on, though its {chips} are not counted as its own: {answer.reason}")
        return self._permits.renew_seconds
