"""Where do a model's candidates, its history and its champion lie, and who may change them?

The history is a log whose records are numbered without gaps and written create-only: a record counts for the history
as it was before it, or is not written. So of two that end a candidate, or of one that promotes and one that rolls back,
one comes second and looks again. `champion.json` only repeats what the newest record says; whoever comes mends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ContractError
from prefect_tpu.infra.errors import NoSuchJob, UsageError
from prefect_tpu.infra.models.records import JUDGED, MAKES_A_CHAMPION, Candidate, Champion, Entry, moved
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
    newest: the number of the newest candidate; 0 where there is none.
    """

    entry: Entry | None
    champion: Entry | None
    open: Candidate | None
    judged: Candidate | None
    newest: int

    @property
    def next_number(self) -> int:
        """Of the record that would be written for this standing."""
        return 1 if self.entry is None else self.entry.number + 1


class Registry:
    """The records of one model below an output."""

    def __init__(self, output: str, model: str) -> None:
        self.model, jobs = check_model(model), open_storage(output)
        self.output = jobs.url
        self.storage: Storage = jobs.inside(layout.model(model))

    def look(self) -> Standing:
        """How the model stands now."""
        numbers, candidates, read = self.numbers(), self._candidates(), cache(self.entry)
        entry = read(numbers[-1]) if numbers else None
        made_by = entry.promoted_by if entry is not None else None
        newest = candidates[-1] if candidates else 0
        has_ended = newest == 0 or _entry_of(newest, numbers, read) is not None
        judged = next((found.candidate for found in map(read, numbers[::-1]) if found.became in JUDGED), None)
        return Standing(
            entry=entry,
            champion=read(made_by) if made_by is not None else None,
            open=None if has_ended else self.candidate(newest),
            judged=None if judged is None else self.candidate(judged),
            newest=newest,
        )

    def numbers(self) -> list[int]:
        """Of all records, lowest first."""
        return layout.numbered(self.storage.children(layout.MODEL_HISTORY), ".json")

    def entry(self, number: int) -> Entry:
        """A record of the history. Raises `ContractError` where it is damaged."""
        name = layout.model_entry(number)
        entry = Entry.from_json(self.storage.get(name) or b"", self.storage.where(name))
        return entry if entry.tried is None else replace(entry, tried=entry.tried.moved_to(self.output))

    def history(self, newest: int | None = None) -> list[Entry]:
        """Its records, newest first; at most so many."""
        numbers = self.numbers()[::-1][:newest]
        with ThreadPoolExecutor(MOST_AT_ONCE) as side_by_side:
            return list(side_by_side.map(self.entry, numbers))

    def candidate(self, number: int) -> Candidate:
        """A candidate as it was begun. Raises `ContractError` where its record is damaged or gone."""
        name = layout.model_candidate(number)
        return Candidate.from_json(self.storage.get(name) or b"", self.storage.where(name))

    def has_candidate(self, number: int) -> bool:
        """Whether a candidate of that number was begun."""
        return self.storage.get(layout.model_candidate(number)) is not None

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
        return _entry_of(candidate, self.numbers(), self.entry)

    def point(self) -> Champion | None:
        """Let `champion.json` say what the history says, and return that.

        What it says is read before the history is: so it is never ahead of it, unless somebody has removed records.
        """
        while True:
            told = self.storage.get(layout.MODEL_CHAMPION)
            before = self._read_champion(told)  # one that a newer version wrote is not replaced
            wanted = self._champion(self.look(), before)
            if wanted is None or told == wanted.to_json():
                return wanted
            self.storage.put(layout.MODEL_CHAMPION, wanted.to_json())  # then once more: a slow one may be behind

    def champion(self) -> Champion | None:
        """What `champion.json` says."""
        told = self._read_champion(self.storage.get(layout.MODEL_CHAMPION))
        if told is None or told.made_by:
            return told
        with suppress(ContractError):  # of a record that is damaged: what is told is good without it
            made_by, since = self._made_by(told.entry, None) or (told.made_by, told.since)
            return replace(told, since=since, made_by=made_by)
        return told

    def _read_champion(self, raw: bytes | None) -> Champion | None:
        if raw is None:
            return None
        told = Champion.from_json(raw, self.storage.where(layout.MODEL_CHAMPION))
        job = moved(told.job, told.job, self.output)
        return replace(told, job=job, checkpoint=moved(told.checkpoint, told.job, self.output))

    def _champion(self, standing: Standing, before: Champion | None) -> Champion | None:
        made = standing.champion
        if standing.entry is None or made is None or made.tried is None:
            return None
        said = before if before is not None and before.number == standing.entry.champion else None
        made_by, since = self._made_by(standing.entry.number, said) or (made.number, made.at)
        return Champion(
            model=self.model,
            number=made.tried.number,
            job=made.tried.job,
            checkpoint=made.tried.checkpoint,
            metrics=made.tried.metrics,
            since=since,
            entry=standing.entry.number,
            made_by=made_by,
        )

    def _made_by(self, newest: int, said: Champion | None) -> tuple[int, float] | None:
        """The record that made the champion, which may have been that before, and when; None where there is none.

        newest: the last record that counts.
        said: what was told of this champion before. That is not looked up again: a model may be trained every night,
            and keep its champion for years.
        """
        for number in (number for number in reversed(self.numbers()) if number <= newest):
            if said is not None and said.made_by and number <= said.entry:
                return said.made_by, said.since
            if (entry := self.entry(number)).became in MAKES_A_CHAMPION:
                return number, entry.at
        return None

    def _candidates(self) -> list[int]:
        return layout.numbered(self.storage.children(layout.MODEL_CANDIDATES), ".json")


def _entry_of(candidate: int, numbers: Sequence[int], read: Callable[[int], Entry]) -> Entry | None:
    """Candidates end in the order of their numbers: what is older than a record of an earlier one is not read."""
    backwards = ((entry, entry.candidate) for entry in map(read, reversed(numbers)))
    newest = next((found for found in backwards if found[1] is not None and found[1] <= candidate), None)
    return newest[0] if newest is not None and newest[1] == candidate else None


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
