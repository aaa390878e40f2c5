"""What is written down of a model's candidates, of what became of each, and of the champion among them?"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from prefect_tpu.infra import contract


class Became(StrEnum):
    """What a record of the history tells."""

    PROMOTED = "promoted"  # a candidate is the champion now
    KEPT = "kept"  # the champion stays: the candidate was not better
    FAILED = "failed"  # the candidate's program failed
    DECLINED = "declined"  # somebody did not want it trained
    ABANDONED = "abandoned"  # it was given up before it was judged
    ROLLED_BACK = "rolled_back"  # somebody has made an earlier champion the champion again


MAKES_A_CHAMPION = frozenset({Became.PROMOTED, Became.ROLLED_BACK})
JUDGED = frozenset({Became.PROMOTED, Became.KEPT, Became.DECLINED})  # the same data needs no other candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A training that may become the champion, as it was begun.

    number: counted from 1; the version of the model that it is.
    began: seconds since the epoch.
    reason: why it was begun.
    job: the name of its training job.
    data, held_out: name → SHA-256 of staged data.
    watched: place → fingerprint of what lay there.
    start_from: the checkpoint that it starts with; "" where it starts afresh.
    parent: the champion at that time; None where there was none.
    """

    number: int
    began: float
    reason: str
    job: str
    data: dict[str, str]
    held_out: dict[str, str]
    watched: dict[str, str]
    start_from: str
    parent: int | None

    @property
    def seen(self) -> dict[str, str]:
        """What it learns from, by which other data is told from the same."""
        return {**self.data, **self.watched}

    def to_json(self) -> bytes:
        return contract.write_json(in_json(self))

    @classmethod
    def from_json(cls, raw: bytes, what: str) -> Candidate:
        with contract.reading(what):
            return cls(**_known(cls, contract.read_json(raw, what)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A candidate that was trained, with all that it came from.

    number: of the candidate.
    job: the folder of its training job.
    checkpoint: the place of its model; the job's folder where the program keeps no checkpoints.
    data, held_out, watched: as the candidate has them.
    code: SHA-256 of the code that trained it; "" where none travelled.
    config: what was asked of the training and of its judge.
    parent: the version that it began with or had to beat; None for the first one.
    metrics: what the judge measured of it.
    """

    number: int
    job: str
    checkpoint: str
    data: dict[str, str]
    held_out: dict[str, str]
    watched: dict[str, str]
    code: str
    config: dict[str, Any]
    parent: int | None
    metrics: dict[str, float]

    def moved_to(self, output: str) -> Version:
        """The same where the folder of all jobs is `output` now."""
        job = moved(self.job, self.job, output)
        return replace(self, job=job, checkpoint=moved(self.checkpoint, self.job, output))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One record of a model's history.

    number: counted from 1 without gaps; each is written for the history as it was before.
    became: what happened.
    candidate: whose record it is; None of a roll back.
    reason: why, for people.
    at: seconds since the epoch.
    champion: the version that is the champion from now on; None while there is none.
    promoted_by: the record that tells all of that version.
    tried: the candidate as it was trained, where it was judged.
    rival: what the judge measured of the champion before, on the same data.
    """

    number: int
    became: Became
    candidate: int | None
    reason: str
    at: float
    champion: int | None
    promoted_by: int | None
    tried: Version | None = None
    rival: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> bytes:
        return contract.write_json(in_json(self))

    @classmethod
    def from_json(cls, raw: bytes, what: str) -> Entry:
        with contract.reading(what):
            data = _known(cls, contract.read_json(raw, what))
            tried = data["tried"] and Version(**_measured(_known(Version, data["tried"])))
            rival = _numbers(data.get("rival", {}))
            return cls(**{**data, "became": Became(data["became"]), "tried": tried, "rival": rival})


@dataclass(frozen=True, slots=True, kw_only=True)
class Champion:
    """The model to use now: what `champion.json` says.

    model: its name.
    number: which of its candidates.
    job: the folder of the job that trained it.
    checkpoint: the place of its weights; the job's folder where the program keeps no checkpoints.
    metrics: what its judge measured.
    since: when it became the champion, the last time where it was that before; seconds since the epoch.
    entry: the newest record of the history that this was made of.
    made_by: the record that made it the champion; 0 where an older version said only since when it first was that.
    """

    model: str
    number: int
    job: str
    checkpoint: str
    metrics: dict[str, float]
    since: float
    entry: int
    made_by: int = 0

    def to_json(self) -> bytes:
        return contract.write_json(in_json(self))

    @classmethod
    def from_json(cls, raw: bytes, what: str) -> Champion:
        with contract.reading(what):
            return cls(**_measured(_known(cls, contract.read_json(raw, what))))


def in_json(record: Candidate | Entry | Champion) -> dict[str, Any]:
    """A record as strict JSON has it, which others read too: a number of no value, such as NaN, goes as text."""
    found: dict[str, Any] = plain(asdict(record))
    return found


def plain(value: Any) -> Any:
    """A value with `"NaN"`, `"Infinity"` and `"-Infinity"` for such numbers, wherever they are in it."""
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return json.dumps(value) if isinstance(value, float) and not math.isfinite(value) else value


def moved(place: str, job: str, output: str) -> str:
    """A place in the folder of a job, where the folder of all jobs is `output` now."""
    return f"{output}/{job.rpartition('/')[2]}{place.removeprefix(job)}" if place.startswith(job) else place


def _measured(data: Mapping[str, Any]) -> dict[str, Any]:
    """With numbers again where `plain` has put text."""
    return {**data, "metrics": _numbers(data["metrics"])}


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(number) if isinstance(number, str) else number for name, number in metrics.items()}


def _known(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a record; what a newer version added is passed over."""
    return {name: data[name] for name in kind.__dataclass_fields__ if name in data}  # type: ignore[attr-defined]
