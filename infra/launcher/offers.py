"""Which offers cannot be had, or not now, why, and how long has the job been without a slice?

What a backend refused is remembered; what a drill made impossible stands in the drill's note, which is read at each
look, so that whoever drives the job next refuses it too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set

from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary, SliceJob
from prefect_tpu.infra.policy.capacity import LONGEST_SILENCE_SECONDS, REST_SECONDS, rest_after, said_in_vain
from prefect_tpu.infra.policy.offers import named, offers_of
from prefect_tpu.infra.state import Offer, Waiting


class Offers:
    """The job's offers in its order, and what one driver has seen of them. `clock` gives seconds.

    rest: seconds after which an offer without capacity is asked again, for the first time.
    awaited: the offer whose slice is on its way; it keeps its turn until that comes, or it tires.
    rehearsed: what drills have made impossible, by the newest look.
    """

    def __init__(self, job: SliceJob, clock: Callable[[], float], rest: float = REST_SECONDS) -> None:
        self.all = offers_of(job)
        self.rest = rest
        self.rehearsed: Mapping[Offer, str] = {}
        self._job, self._clock = job, clock
        self._refused: dict[Offer, str] = {}
        self._barred: set[Offer] = set()
        self._said: dict[Offer, Waiting] = {}  # by those that were asked since there was no slice
        self._wakes: dict[Offer, float] = {}  # when those that were dry are asked again
        self._times: Counter[Offer] = Counter()  # how often in a row they were
        self.awaited: Offer | None = None
        self._lacking_since: float | None = None

    @property
    def refused(self) -> Mapping[Offer, str]:
        return {**self._refused, **self.rehearsed}

    @property
    def waited(self) -> float:
        """Seconds since no slice was to be had."""
        return 0.0 if self._lacking_since is None else self._clock() - self._lacking_since

    @property
    def barred(self) -> frozenset[Offer]:
        """Those of the refused that lack no slice: something is in the way of the job itself."""
        return frozenset(self._barred)

    @property
    def dry(self) -> Mapping[Offer, float]:
        """Those that had no capacity when they were asked, and for how many seconds they still rest, if any."""
        now = self._clock()
        return {offer: moment - now for offer, moment in self._wakes.items()}

    @property
    def lacking(self) -> Mapping[Offer, str]:
        """What those said that had no slice for now, when they were asked last."""
        return {offer: answer.reason for offer, answer in self._said.items()}

    @property
    def short_of(self) -> FailureKind:
        """What those lacked, where it was the same for all; else capacity."""
        kinds = {answer.kind for answer in self._said.values()}
        return kinds.pop() if len(kinds) == 1 else FailureKind.NO_CAPACITY

    def named(self, offer: Offer) -> str:
        """As people tell it apart from the job's other offers."""
        return named(offer, self.all)

    def are_elsewhere(self, offer: Offer) -> bool:
        """Whether the job has offers in other clusters than this one's."""
        return any(other.cluster != offer.cluster for other in self.all)

    def refuse(self, offer: Offer, reason: str, *, is_barred: bool = False) -> None:
        self._refused[offer] = reason
        if is_barred:
            self._barred.add(offer)

    def wait_for(self, offer: Offer, answer: Waiting) -> None:
        """It has no slice yet. One that is dry rests, and gives its turn away; another one keeps it."""
        if self._lacking_since is None:
            self._lacking_since = self._clock()
            self._said.clear()
        self._said[offer] = answer
        if answer.is_dry:
            self._times[offer] += 1
            self._wakes[offer] = self._clock() + rest_after(self._times[offer], self.rest, LONGEST_SILENCE_SECONDS)
        else:
            self._forget({offer})
        self.awaited = None if answer.is_dry else offer

    def got(self) -> None:
        """There is a slice. Who rests goes on resting."""
        self.awaited = self._lacking_since = None
        self._forget({offer for offer, moment in self._wakes.items() if moment <= self._clock()})

    def _forget(self, offers: Set[Offer]) -> None:
        """That they were dry."""
        for offer in offers:
            self._wakes.pop(offer, None)
            self._times.pop(offer, None)

    def tire(self) -> Offer | None:
        """Refuse what was waited for too long, if there is another offer that was not asked yet; that offer."""
        tired_of, longest = self.awaited, self._job.provision_timeout
        if tired_of is None or self.waited <= longest or not set(self.all) - set(self.refused) - set(self._said):
            return None
        said = self._said[tired_of].reason.rstrip(".")
        self.refuse(tired_of, f"no slice within {longest:.0f} s (provision_timeout): {said}.")
        self.awaited = self._lacking_since = None
        return tired_of

    def instead_of(self, offer: Offer, ended: Sequence[AttemptSummary] = ()) -> str | None:
        """Which offers, better liked than this one, cannot be had, or gave no slice, and why.

        ended: the attempts of this round, of which the last may have waited in vain.
        """
        return "; ".join(self.missed(offer, ended)) or None

    def missed(self, offer: Offer, ended: Sequence[AttemptSummary] = ()) -> tuple[str, ...]:
        """The same, a sentence for each of them."""
        better = self.all[: self.all.index(offer)] if offer in self.all else ()
        in_vain = said_in_vain(ended)
        return tuple(filter(None, (self._missing(o, in_vain) for o in better)))

    def _missing(self, offer: Offer, in_vain: Mapping[Offer, str]) -> str:
        name, refused = self.named(offer), self.refused
        if offer in refused:
            return f"{name} cannot be had: {refused[offer].rstrip('.')}"
        reason = (self.lacking.get(offer) or in_vain.get(offer) or "").rstrip(".")
        return reason if not reason or name in reason else f"{name} gave no slice: {reason}"
