"""Which host stopped first, when none made a step any more, and what is said of it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import HostRecord


def stopped_first(stalled: Sequence[HostRecord]) -> int | None:
    """Among the hosts that reported a step, one that does not wait for others, and of those the one of the lowest step.

    The last step that is known may be one behind, because reports are not all written: so waiting comes first. Of
    equals one that stands where few stand, then the one of the earliest report since the hosts met, which is the one
    clock they share.
    """
    if len(stalled) == 1:
        return stalled[0].host  # the others have given no sign of life yet, or have ended
    reported = [record for record in stalled if record.progress.step is not None]
    places = Counter(record.silence.where for record in reported if record.silence)

    def order(record: HostRecord) -> tuple[bool, int, int, float]:
        silence, after = record.silence, (record.progress.reported_after or 0.0) - (record.joined_after or 0.0)
        waits, crowd = (silence.is_waiting, places[silence.where]) if silence else (False, 0)
        return waits, record.progress.step or 0, crowd, after

    return min(reported, key=order).host if reported else None


def message(stalled: Sequence[HostRecord]) -> str:
    """For how long, where and after which step; and where the stacks are."""
    first = stopped_first(stalled)
    shown = next(record for record in stalled if first in (None, record.host))
    seconds = min((record.silence.silent_for for record in stalled if record.silence), default=None)
    span = "too long" if seconds is None else f"{seconds:.0f} s"
    who = f"host {shown.host} stopped first, after step {shown.progress.step}"
    if shown.progress.step is None:
        who = f"none was ever reported; host {shown.host} stood still"
    at = f", in {shown.silence.where}" if shown.silence and shown.silence.where else ""
    return f"No host made a step for {span}; {who}{at}; {_stacks(stalled)}."


def _stacks(stalled: Sequence[HostRecord]) -> str:
    """Where they are kept; a program that changed the signal's handler, or stands stopped, has given none."""
    if not any(record.silence and record.silence.where for record in stalled):
        return "asked for stacks, no program answered"
    place = layout.stacks(stalled[0].attempt, stalled[0].host).replace(f"/hosts/{stalled[0].host}/", "/hosts/*/")
    return f"the stacks of all hosts are in {place}"
