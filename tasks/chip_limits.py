"""How many chips may all jobs of a Prefect server have? By a global concurrency limit named `chips-<kind>`, if any.

Its slots are chips. They are leased, and renewed for as long as the job has its slice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from uuid import UUID

import anyio
import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.responses import GlobalConcurrencyLimitResponse
from prefect.exceptions import ObjectNotFound

from prefect_tpu.infra.backends.base import Refused
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.launcher.permits import Chips, Permit, Standing
from prefect_tpu.infra.state import WaitFor, Waiting

ANSWER_SECONDS = 10.0  # for one question; Prefect's client alone would ask a server that is away for minutes
FIRST_LEASE_SECONDS = 60.0  # the shortest that a server takes, while nobody has noted the lease
LEASE_SECONDS = 300.0
RENEW_SECONDS = 60.0
ABSENT_SECONDS = 60.0  # until it is asked again whether there is such a limit
DENIED_SECONDS = 5.0  # until it is asked again whether as many are free; all jobs of a worker hear one answer
_TOO_FEW, _TOO_MANY, _GONE = 423, 422, 410  # occupied by others; more than the limit; a lease that has lapsed
_AWAY = (httpx.HTTPError, TimeoutError, OSError, RuntimeError)
_NO_ANSWER = (ValueError, KeyError)  # a page of whatever stands before the server, or of one of another version

Client = Callable[[], AbstractAsyncContextManager[PrefectClient]]


class ChipLimits:
    """`Permits` that a Prefect server gives. Where it has no limit for a kind of chips, nobody counts them.

    client: opens one for each question, by default to the server of the flow run.
    """

    def __init__(
        self,
        client: Client = get_client,
        clock: Callable[[], float] = time.monotonic,
        renew_seconds: float = RENEW_SECONDS,
    ) -> None:
        self.renew_seconds = renew_seconds
        self._client, self._clock = client, clock
        self._absent: dict[str, float] = {}  # names of limits, and when the server last had none
        self._full: dict[str, tuple[float, int, int]] = {}  # names, when too few were free, how many there are, and had

    async def take(self, chips: Chips) -> Permit | Waiting | Refused | None:
        """As `Permits` says. A server that is away is waited for, unless it had no such limit when it was there."""
        name = limit_name(chips.kind)
        if name in self._absent and self._clock() - self._absent[name] < ABSENT_SECONDS:
            return None
        if name in self._full:
            moment, limit, taken = self._full[name]
            if self._clock() - moment < DENIED_SECONDS and limit - taken < chips.count <= limit:
                return too_few(name, limit, taken, chips.count)
        try:
            with anyio.fail_after(ANSWER_SECONDS):
                async with self._client() as client:
                    return await self._take(client, name, chips)
        except (*_AWAY, *_NO_ANSWER) as exc:
            return None if name in self._absent else _unanswered(name, exc)

    async def renew(self, permit: Permit) -> Standing:
        try:
            with anyio.fail_after(ANSWER_SECONDS):
                async with self._client() as client:
                    await client.renew_concurrency_lease(UUID(permit.lease), LEASE_SECONDS)
        except httpx.HTTPStatusError as exc:
            return Standing.LAPSED if exc.response.status_code == _GONE else Standing.UNKNOWN
        except _AWAY:
            return Standing.UNKNOWN
        return Standing.KEPT

    async def give_back(self, permit: Permit) -> None:
        self._full.pop(limit_name(permit.chips.kind), None)
        try:
            with anyio.fail_after(ANSWER_SECONDS):
                async with self._client() as client:
                    await client.release_concurrency_slots_with_lease(UUID(permit.lease))
        except _AWAY:
            return  # it lapses

    async def _take(self, client: PrefectClient, name: str, chips: Chips) -> Permit | Waiting | Refused | None:
        limit = await self._find(client, name)
        if limit is None:
            return None
        if chips.count > limit.limit:
            return _never(name, limit.limit, chips)
        if limit.active_slots + chips.count <= limit.limit:
            try:
                got = await client.increment_concurrency_slots_with_lease(
                    [name], chips.count, "concurrency", FIRST_LEASE_SECONDS
                )
                return Permit(lease=str(got.json()["lease_id"]), chips=chips)
            except httpx.HTTPStatusError as exc:
                if exc.response.status_code not in (_TOO_FEW, _TOO_MANY):
                    raise
                limit = await self._find(client, name) or limit  # others came first since it was read
        self._full[name] = self._clock(), limit.limit, limit.active_slots
        return too_few(name, limit.limit, limit.active_slots, chips.count)

    async def _find(self, client: PrefectClient, name: str) -> GlobalConcurrencyLimitResponse | None:
        """The limit, where there is one that counts."""
        try:
            limit = await client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound:
            limit = None
        if limit is None or not limit.active:
            self._absent[name] = self._clock()
            return None
        self._absent.pop(name, None)
        return limit


def limit_name(kind: str) -> str:
    """Of the global concurrency limit that counts the chips of a kind."""
    return f"chips-{kind}"


def too_few(name: str, limit: int, taken: int, wanted: int) -> Waiting:
    """That others have so many that too few are left."""
    free = max(0, limit - taken)
    reason = f"concurrency limit {name!r} has {free} of its {limit} chips free, and {wanted} are needed"
    return Waiting(reason=reason, is_dry=True, kind=FailureKind.NO_QUOTA, what=WaitFor.QUOTA)


def _never(name: str, limit: int, chips: Chips) -> Refused:
    reason = (
        f"concurrency limit {name!r} is {limit} in all, and {chips.count} chips are needed: ask for a smaller slice, or"
        f" raise it with `prefect gcl update {name} --limit {chips.count}`"
    )
    return Refused(reason=reason, is_barred=True)


def _unanswered(name: str, exc: Exception) -> Waiting:
    reason = f"the Prefect server does not say whether concurrency limit {name!r} has room ({_why(exc)}); asked again"
    return Waiting(reason=reason, kind=FailureKind.NO_QUOTA, what=WaitFor.QUOTA)


def _why(exc: Exception) -> str:
    """Never with the address, which may have a password in it."""
    if isinstance(exc, httpx.HTTPStatusError):
        return f"it answers {exc.response.status_code}"
    return "what it answers is none of its answers" if isinstance(exc, _NO_ANSWER) else type(exc).__name__
