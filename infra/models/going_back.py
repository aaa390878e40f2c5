"""How does an earlier champion become the champion again?"""

from __future__ import annotations

from collections.abc import Sequence

from prefect_tpu.infra import start_points
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.models.records import Became, Champion, Entry
from prefect_tpu.infra.models.registry import Registry


def roll_back(registry: Registry, version: int | None, reason: str, at: float) -> Champion:
    """Make an earlier champion the champion again; the one before this one where no version is named.

    Raises `UsageError` where there is none such, or its weights are gone.
    """
    while True:
        registry.point()  # what was cut short is finished first, also where nothing else is to be done
        standing, entries = registry.look(), registry.history()
        now = standing.entry.champion if standing.entry is not None else None
        made = _made_champion(entries, now, version, registry.model)
        assert made.tried is not None, "only what was promoted is found"
        if not start_points.is_usable(made.tried.checkpoint):
            raise UsageError(
                f"Version {made.tried.number} of model {registry.model!r} cannot be gone back to: its weights are not"
                f" whole any more, or not at {made.tried.checkpoint}. Name another version."
            )
        entry = Entry(
            number=standing.next_number,
            became=Became.ROLLED_BACK,
            candidate=None,
            reason=reason,
            at=at,
            champion=made.tried.number,
            promoted_by=made.number,
        )
        if registry.add(entry):
            champion = registry.point()
            assert champion is not None, "it was just named"
            return champion


def _made_champion(entries: Sequence[Entry], now: int | None, version: int | None, model: str) -> Entry:
    """The record that promoted a version; of none that is named, of the champion before the present one."""
    promoted = {entry.candidate: entry for entry in reversed(entries) if entry.became is Became.PROMOTED}
    if version is None:
        version = next((e.champion for e in entries if e.champion not in (None, now)), None)
    if version is None:
        raise UsageError(f"Model {model!r} has had no other champion to go back to.")
    if version == now:
        raise UsageError(f"Version {version} of model {model!r} is its champion already.")
    if version not in promoted:
        were = ", ".join(str(number) for number in sorted(n for n in promoted if n is not None)) or "none"
        raise UsageError(f"Version {version} of model {model!r} was never its champion. These were: {were}.")
    return promoted[version]
