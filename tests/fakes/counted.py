"""Somebody who counts chips, in memory: `Permits` with a number of chips for each kind, and leases that lapse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from prefect_tpu.infra.backends.base import Refused
from prefect_tpu.infra.launcher.permits import Chips, Permit, Standing
from prefect_tpu.infra.state import WaitFor, Waiting


class Counted:
    """Kinds that `limits` does not name are not counted.

    taken: lease → chips, of all that are had now. most: of each kind, that were ever had at once.
    is_away: nobody answers. asked: how often chips were asked for. renewed: leases, each time.
    gave: called whenever chips were had.
    """

    renew_seconds = 0.02

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = dict(limits)
        self.taken: dict[str, Chips] = {}
        self.most: Counter[str] = Counter()
        self.is_away = False
        self.asked = 0
        self.renewed: list[str] = []
        self.gave: Callable[[], None] = lambda: None
        self._made = 0

    def in_use(self, kind: str) -> int:
        return sum(chips.count for chips in self.taken.values() if chips.kind == kind)

    async def take(self, chips: Chips) -> Permit | Waiting | Refused | None:
        self.asked += 1
        if self.is_away:
            return Waiting(reason="nobody answers", what=WaitFor.QUOTA)
        if (limit := self.limits.get(chips.kind)) is None:
            return None
        if chips.count > limit:
            return Refused(reason=f"there are {limit} in all", is_barred=True)
        if self.in_use(chips.kind) + chips.count > limit:
            return Waiting(reason=f"{chips} are not free", is_dry=True, what=WaitFor.QUOTA)
        self._made += 1
        permit = Permit(lease=f"lease-{self._made}", chips=chips)
        self.taken[permit.lease] = chips
        self.most[chips.kind] = max(self.most[chips.kind], self.in_use(chips.kind))
        self.gave()
        return permit

    async def renew(self, permit: Permit) -> Standing:
        if self.is_away:
            return Standing.UNKNOWN
        if permit.lease not in self.taken:
            return Standing.LAPSED
        self.renewed.append(permit.lease)
        return Standing.KEPT

    async def give_back(self, permit: Permit) -> None:
        if not self.is_away:
            self.taken.pop(permit.lease, None)
