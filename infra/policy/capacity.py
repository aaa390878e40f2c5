"""Which offer next, and which places not? Offers and what came of them → the next one, or give up with all reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from types import MappingProxyType

from prefect_tpu.infra.contract import ExitCode
from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.policy.offers import named, offer_of
from prefect_tpu.infra.state import HostObservation, Observation, Offer

REST_SECONDS = 60.0  # an offer without capacity is asked again after it; a platform that has none has none at once
LONGEST_SILENCE_SECONDS = 600.0  # between two questions where nothing waits in a cluster meanwhile
LONGEST_REST_SECONDS = 1_800.0  # where another attempt does
REFUSED_ADVICE = "Waiting does not help: mend what is named, or ask for other accelerators, then run the same again."

CAPACITY = frozenset({FailureKind.NO_CAPACITY, FailureKind.UNSCHEDULABLE, FailureKind.NO_QUOTA})
AVOID_SECONDS = 1_800.0  # by then a platform has mended or replaced the machine that it took away
MOST_AVOIDED = 8  # more would leave no place to go to


def choose(
    offers: Sequence[Offer],
    refused: Mapping[Offer, str],
    in_vain: Sequence[Offer] = (),
    barred: Set[Offer] = frozenset(),
    dry: Mapping[Offer, float] = MappingProxyType({}),
) -> Offer | Failure:
    """The first offer that was not refused; those tried `in_vain`, oldest first, come last, in that order.

    So do those that were `dry`, by the seconds that they still rest: the one that wakes first before the others. One
    that rests comes after all that do not.

    Returns a `Failure` that lists why each was refused where none is left. Where all are `barred`, no slice was
    lacking: something is in the way of the job itself.
    """
    open_offers = [offer for offer in offers if offer not in refused]
    if not open_offers:
        kind = FailureKind.REFUSED if set(offers) <= barred else FailureKind.NO_CAPACITY
        return replace(none_of(offers, refused, kind), advice=REFUSED_ADVICE)
    tried = {offer: position for position, offer in enumerate(in_vain)}

    def turn(offer: Offer) -> tuple[bool, bool, float, int, int]:
        rest, position = dry.get(offer, 0.0), tried.get(offer, -1)
        return rest > 0, offer in dry or offer in tried, rest, position, offers.index(offer)

    return min(open_offers, key=turn)


def none_of(offers: Sequence[Offer], reasons: Mapping[Offer, str], kind: FailureKind, what: str = "") -> Failure:
    """That none of the offers gave a slice, with the reason of each that was asked."""
    lines = tuple(_line(named(offer, offers), reasons[offer]) for offer in offers if offer in reasons)
    return replace(failure(kind, _in_one(kind, what, " ".join(lines))), evidence=lines)


def _in_one(kind: FailureKind, what: str, reasons: str) -> str:
    if what:
        return f"{what} {reasons}".rstrip()
    if kind is FailureKind.REFUSED:
        return f"The job is not taken. {reasons}"
    return f"No slice is to be had. {reasons}"


def _line(name: str, reason: str) -> str:
    """Of one offer, which its reason may name already."""
    return f"{reason if name in reason else f'{name}: {reason}'}".rstrip(".") + "."


def in_a_row(ended: Sequence[AttemptSummary]) -> tuple[AttemptSummary, ...]:
    """The last attempts, as far back as none of them had a slice; oldest first."""
    count = 0
    for attempt in reversed(ended):
        if attempt.failure is None or attempt.failure.kind not in CAPACITY:
            break
        count += 1
    return tuple(ended[len(ended) - count :])


def in_vain(ended: Sequence[AttemptSummary]) -> tuple[AttemptSummary, ...]:
    """Those of the last attempts without a slice after which another accelerator has its turn, oldest first.

    One that has found a place to keep away from is none: another slice of the same accelerator was free then.
    """
    row = in_a_row(ended)
    return tuple(
        attempt
        for index, attempt in enumerate(row)
        if attempt.failure is None
        or attempt.failure.kind is not FailureKind.UNSCHEDULABLE
        or not new_places(row[: index + 1])
    )


def said_in_vain(ended: Sequence[AttemptSummary]) -> dict[Offer, str]:
    """Why the last attempts had no slice, the newest of each offer."""
    return {offer_of(attempt): attempt.failure.message for attempt in in_a_row(ended) if attempt.failure is not None}


def resting(ended: Sequence[AttemptSummary], now: float, seconds: float = REST_SECONDS) -> dict[Offer, float]:
    """For how many seconds more no attempt shall begin on an offer again while another one waits in a cluster.

    `now` is by the clock of their ends; an offer that has rested for long enough has 0 or less.
    """
    tried = in_vain(ended)
    times = Counter(offer_of(attempt) for attempt in tried)
    last = {offer_of(attempt): attempt.ended or attempt.started for attempt in tried}
    return {o: last[o] + rest_after(count, seconds, LONGEST_REST_SECONDS) - now for o, count in times.items()}


def rest_after(times: int, first: float, longest: float) -> float:
    """Seconds: twice as long each time in vain, so that a day without capacity makes no thousand tries."""
    return min(max(first, longest), first * 2.0 ** min(times - 1, 16))


def new_places(row: Sequence[AttemptSummary]) -> tuple[str, ...]:
    """Where the last of these attempts lost hosts, and none before it did."""
    known = {place for attempt in row[:-1] for place in attempt.places}
    return tuple(place for place in row[-1].places if place not in known)


def to_avoid(ended: Sequence[AttemptSummary], now: float) -> tuple[str, ...]:
    """Places that this round's attempts lost hosts on not long ago, the newest first.

    Whether another place may be had the backend decides; `now` is by the clock of the attempts' ends.
    """
    recent = [
        attempt for attempt in reversed(ended) if attempt.ended is not None and now - attempt.ended <= AVOID_SECONDS
    ]
    places = dict.fromkeys(place for attempt in recent for place in attempt.places)
    return tuple(places)[:MOST_AVOIDED]


def lost_places(seen: Observation) -> tuple[str, ...]:
    """Where an attempt lost hosts: those the platform ended, and those that are gone without a word."""
    ended = (host for host in seen.hosts if host.cause is not None or (host.has_ended and _is_lost(host)))
    return tuple(dict.fromkeys(host.place for host in ended if host.place and not host.is_consequence))


def _is_lost(host: HostObservation) -> bool:
    """Without a word, or where its machine did not let it begin, as with a full disk."""
    return host.record is None or host.record.exit_code == ExitCode.CANNOT_BEGIN
