"""Which offers cannot be had, why, and how long has the job waited for one?

What a backend refused is remembered; what a drill made impossible stands in the drill's note, which is read at each
look, so that whoever drives the job next refuses it too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.state import Offer


class Offers:
    """The job's offers in its order, and what one driver has seen of them. `clock` gives seconds.

    rehearsed: what drills have made impossible, by the newest look.
    """

    def __init__(self, job: SliceJob, clock: Callable[[], float]) -> None:
        self.all = tuple(Offer(accelerator=name) for name in job.accelerators)
        self.rehearsed: Mapping[Offer, str] = {}
        self._job, self._clock = job, clock
        self._refused: dict[Offer, str] = {}
        self._barred: set[Offer] = set()
        self._waiting_for: Offer | None = None
        self._waiting_since = 0.0

    @property
    def refused(self) -> Mapping[Offer, str]:
        return {**self._refused, **self.rehearsed}

    @property
    def waited(self) -> float:
        """Seconds since no slice was to be had."""
        return 0.0 if self._waiting_for is None else self._clock() - self._waiting_since

    @property
    def barred(self) -> frozenset[Offer]:
        """Those of the refused that lack no slice: something is in the way of the job itself."""
        return frozenset(self._barred)

    def refuse(self, offer: Offer, reason: str, *, is_barred: bool = False) -> None:
        self._refused[offer] = reason
        if is_barred:
            self._barred.add(offer)

    def wait_for(self, offer: Offer) -> None:
        if self._waiting_for is None:
            self._waiting_since = self._clock()
        self._waiting_for = offer

    def got(self) -> None:
        self._waiting_for = None

    def tire(self) -> Offer | None:
        """Refuse what was waited for too long, if another offer may still be had; that offer."""
        tired_of, longest = self._waiting_for, self._job.provision_timeout
        if tired_of is None or self.waited <= longest or not set(self.all) - set(self.refused) - {tired_of}:
            return None
        self.refuse(tired_of, f"no slice within {longest:.0f} s (provision_timeout).")
        self._waiting_for = None
        return tired_of

    def instead_of(self, offer: Offer) -> str | None:
        """Which offers, better liked than this one, cannot be had, and why."""
        refused = self.refused
        better = [o for o in self.all[: self.all.index(offer)] if o in refused] if offer in self.all else []
        return "; ".join(f"{o.accelerator} cannot be had: {refused[o].rstrip('.')}" for o in better) or None
