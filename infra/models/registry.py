"""Where do a model's candidates, its history and its champion lie, and who may change them?

The history is a log whose records are numbered without gaps and written create-only: a record counts for the history
as it was before it, or is not written. So of two that end a candidate, or of one that promotes and one that rolls back,
one comes second and looks again. `champion.json` only repeats what the newest record says; whoever comes mends it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import NoSuchJob, UsageError
from prefect_tpu.infra.models.records import JUDGED, Became, Candidate, Champion, Entry
from prefect_tpu.infra.storage import Storage, open_storage

MODEL_NAME = re.compile(r"[a-z][a-z0-9-]{0,11}")  # its jobs are called after it, with a number
MOST_AT_ONCE = 16  # questions to a bucket side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a model stands, as it was looked up at once.

    entry: the newest record; None where there is none.
    champion: the record that made the champion; None where there is none.
    open: the newest candidate, where nothing has become of it yet.
    judged: the newest candidate that was judged or declined.
    """

    entry: Entry | None
    champion: Entry | None
    open: Candidate | None
    judged: Candidate | None

    @property
    def next_number(self) -> int:
        """Of the record that would be written for this standing."""
        return 1 if self.entry is None else self.entry.number + 1


class Registry:
    """The records of one model below an output."""

    def __init__(self, output: str, model: str) -> None:
        self.model = check_model(model)
        self.storage: Storage = open_storage(output).inside(layout.model(model))

    def look(self) -> Standing:
        """How the model stands now."""
        numbers = self.numbers()
        entry = self.entry(numbers[-1]) if numbers else None
        made_by = entry.promoted_by if entry is not None else None
        return Standing(
            entry=entry,
            champion=self.entry(made_by) if made_by is not None else None,
            open=self._open(numbers),
            judged=self._judged(numbers),
        )

    def numbers(self) -> list[int]:
        """Of all records, lowest first."""
        return layout.numbered(self.storage.children(layout.MODEL_HISTORY), ".json")

    def entry(self, number: int) -> Entry:
        """A record of the history. Raises `ContractError` where it is damaged."""
        name = layout.model_entry(number)
        return Entry.from_json(self.storage.get(name) or b"", self.storage.where(name))

    def history(self, newest: int | None = None) -> list[Entry]:
        """Its records, newest first; at most so many."""
        numbers = self.numbers()[::-1][:newest]
        with ThreadPoolExecutor(MOST_AT_ONCE) as side_by_side:
            return list(side_by_side.map(self.entry, numbers))

    def candidate(self, number: int) -> Candidate:
        """A candidate as it was begun. Raises `ContractError` where its record is damaged or gone."""
        name = layout.model_candidate(number)
        return Candidate.from_json(self.storage.get(name) or b"", self.storage.where(name))

    def next_candidate(self) -> int:
        """The number of the candidate that would be begun now."""
        return max(self._candidates(), default=0) + 1

    def begin(self, candidate: Candidate) -> Candidate:
        """The candidate of that number: this one, unless somebody was faster."""
        name = layout.model_candidate(candidate.number)
        is_ours = self.storage.put_if_absent(name, candidate.to_json())
        return candidate if is_ours else self.candidate(candidate.number)

    def add(self, entry: Entry) -> bool:
        """Write a record for the history as it was. False where the history has gone on since."""
        return self.storage.put_if_absent(layout.model_entry(entry.number), entry.to_json())

    def entry_of(self, candidate: int) -> Entry | None:
        """What became of a candidate; None while nothing has."""
        return self._entry_of(candidate, self.numbers())

    def point(self) -> Champion | None:
        """Let `champion.json` say what the history says, and return that. It never goes back to an older record."""
        while True:
            wanted = self._champion(self.look())
            if wanted is None:
                return None
            told = self.champion()
            if told is not None and told.entry >= wanted.entry:
                return told
            self.storage.put(layout.MODEL_CHAMPION, wanted.to_json())

    def champion(self) -> Champion | None:
        """What `champion.json` says."""
        raw = self.storage.get(layout.MODEL_CHAMPION)
        return None if raw is None else Champion.from_json(raw, self.storage.where(layout.MODEL_CHAMPION))

    def _champion(self, standing: Standing) -> Champion | None:
        made = standing.champion
        if standing.entry is None or made is None or made.tried is None:
            return None
        return Champion(
            model=self.model,
            number=made.tried.number,
            job=made.tried.job,
            checkpoint=made.tried.checkpoint,
            metrics=made.tried.metrics,
            since=made.at,
            entry=standing.entry.number,
        )

    def _candidates(self) -> list[int]:
        return layout.numbered(self.storage.children(layout.MODEL_CANDIDATES), ".json")

    def _open(self, numbers: list[int]) -> Candidate | None:
        candidates = self._candidates()
        if not candidates:
            return None
        return self.candidate(candidates[-1]) if self._entry_of(candidates[-1], numbers) is None else None

    def _entry_of(self, candidate: int, numbers: list[int]) -> Entry | None:
        """Candidates end in the order of their numbers: what is older than a record of an earlier one is not read."""
        backwards = ((entry, entry.candidate) for entry in self._backwards(numbers))
        newest = next((found for found in backwards if found[1] is not None and found[1] <= candidate), None)
        return newest[0] if newest is not None and newest[1] == candidate else None

    def _judged(self, numbers: list[int]) -> Candidate | None:
        found = (entry.candidate for entry in self._backwards(numbers) if entry.became in JUDGED)
        number = next(found, None)
        return None if number is None else self.candidate(number)

    def _backwards(self, numbers: list[int]) -> Iterator[Entry]:
        return (self.entry(number) for number in reversed(numbers))


def roll_back(registry: Registry, version: int | None, reason: str, at: float) -> Champion:
    """Make an earlier champion the champion again; the one before this one where no version is named.

    Raises `UsageError` where there is none such.
    """
    while True:
        standing, entries = registry.look(), registry.history()
        made = _made_champion(entries, standing, version, registry.model)
        assert made.tried is not None, "only what was promoted is found"
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


def _made_champion(entries: list[Entry], standing: Standing, version: int | None, model: str) -> Entry:
    """The record that promoted a version; of none that is named, of the champion before the present one."""
    now = standing.entry.champion if standing.entry is not None else None
    promoted = {entry.candidate: entry for entry in reversed(entries) if entry.became is Became.PROMOTED}
    if version is None:
        before = next((e.champion for e in entries if e.champion not in (None, now)), None)
        if before is None:
            raise UsageError(f"Model {model!r} has had no other champion to go back to.")
        version = before
    if version == now:
        raise UsageError(f"Version {version} of model {model!r} is its champion already.")
    if version not in promoted:
        were = ", ".join(str(number) for number in sorted(n for n in promoted if n is not None)) or "none"
        raise UsageError(f"Version {version} of model {model!r} was never its champion. These were: {were}.")
    return promoted[version]


def check_model(name: str) -> str:
    """The name itself. Raises `UsageError` where no job could be called after it."""
    if not isinstance(name, str) or not MODEL_NAME.fullmatch(name):
        raise UsageError(
            f"Model name {name!r} is not usable: start with a letter a-z, then at most 11 of a-z, 0-9 and '-'."
        )
    return name


def model_names(output: str) -> list[str]:
    """Of all models below an output, sorted."""
    return [name for name in open_storage(output).children(layout.MODELS_FOLDER) if MODEL_NAME.fullmatch(name)]


def find_registry(output: str, model: str) -> Registry:
    """The registry of a model that is there. Raises `NoSuchJob` where none is called that."""
    registry = Registry(output, model)
    if not registry.storage.children(layout.MODEL_CANDIDATES):
        have = ", ".join(model_names(output)) or "none"
        raise NoSuchJob(f"There is no model {model!r} in {open_storage(output).url}. It has: {have}.")
    return registry
