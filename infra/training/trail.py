"""Which way did a host come, and where do the ways of several part? Pure.

Hosts are looked at at different moments, so what they hold of their ways must overlap without being long: the first
call and each of the last ones are kept, of those between every second, every fourth and so on. A mark has the digest
of all calls up to it, so that a difference shows at the next mark that two hosts both hold, however long ago it was.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LAST, EACH = 8, 4  # marks that are kept: of the last calls, and of each wider distance
END = "the end of its program"
Values = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One call on the way of a host.

    call: counted from 1.
    step: that was given, or `END`.
    values: name → what was given, as text.
    late: the same of what was computed later; only what is there.
    way: digest of this call and of all before it, without what came late.
    """

    call: int
    step: int | str
    values: Values = field(default_factory=dict)
    late: Values = field(default_factory=dict)
    way: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Where the ways of hosts part.

    hosts: whose way is not that of most, or of the leader where there are as many of each.
    said: how, as a sentence without its end.
    """

    hosts: tuple[int, ...]
    said: str


class Trail:
    """The way of this host, as far back as it is kept."""

    def __init__(self) -> None:
        self._calls, self._way = 0, ""
        self._first: list[Mark] = []  # one at most
        self._kept: list[deque[Mark]] = []

    def add(self, step: int | str, values: Values) -> Mark:
        """One call more."""
        self._calls += 1
        said = f"{self._way}\n{step}\n{sorted(values.items())}"
        self._way = hashlib.blake2b(said.encode(), digest_size=8).hexdigest()
        mark = Mark(call=self._calls, step=step, values=values, way=self._way)
        self._first = self._first or [mark]
        for level in range((self._calls & -self._calls).bit_length()):  # those whose distance divides the call
            if level == len(self._kept):
                self._kept.append(deque(maxlen=EACH if level else LAST))
            self._kept[level].append(mark)
        return mark

    def marks(self) -> list[Mark]:
        """All that is kept, oldest first, each once."""
        kept = {mark.call: mark for level in (self._first, *self._kept) for mark in level}
        return [kept[call] for call in sorted(kept)]


def written(marks: Iterable[Mark]) -> str:
    return json.dumps([[m.call, m.step, dict(m.values), dict(m.late), m.way] for m in marks], separators=(",", ":"))


def read(text: str) -> list[Mark]:
    rows: list[list[Any]] = json.loads(text)
    return [Mark(call=row[0], step=row[1], values=row[2], late=row[3], way=row[4]) for row in rows]


def parting(trails: Mapping[int, Sequence[Mark]]) -> Parting | None:
    """Where the ways part first, as far as the hosts' marks tell; None where they do not."""
    by_call: dict[int, dict[int, Mark]] = {}
    for host, marks in trails.items():
        for mark in marks:
            by_call.setdefault(mark.call, {})[host] = mark
    before: Mark | None = None
    for call in sorted(call for call, made in by_call.items() if len(made) > 1):
        made = by_call[call]
        if found := _parted(made, before):
            return found
        before = next(iter(made.values()))
    return None


def _parted(marks: Mapping[int, Mark], before: Mark | None) -> Parting | None:
    """At one call, which several hosts have made."""
    if others := _others({host: mark.way for host, mark in marks.items()}):
        return Parting(hosts=others, said=_how(marks, others, before))
    for name in sorted({name for mark in marks.values() for name in mark.late}):
        texts = {host: mark.late[name] for host, mark in marks.items() if name in mark.late}
        if others := _others(texts):
            step = next(iter(marks.values())).step
            return Parting(hosts=others, said=_value(name, step, texts, others))
    return None


def _others(texts: Mapping[int, str]) -> tuple[int, ...]:
    """The hosts that do not say what most say; of as many of each, the one that the lowest host says counts."""
    counts = Counter(texts[host] for host in sorted(texts))
    most = max(counts, key=lambda text: counts[text])  # the first of equals
    return tuple(host for host in sorted(texts) if texts[host] != most)


def _how(marks: Mapping[int, Mark], others: Sequence[int], before: Mark | None) -> str:
    other, usual = marks[others[0]], next(mark for host, mark in sorted(marks.items()) if host not in others)
    who = listed(others)
    if other.step != usual.step:
        call = f" at call {other.call} of agree()" if END not in (other.step, usual.step) else ""
        return f"{who} came to {at(other.step)}{call}, where {_rest(marks, others)} came to {at(usual.step)}"
    for name in sorted({*other.values, *usual.values}):
        texts = {host: mark.values.get(name, "nothing") for host, mark in marks.items()}
        if texts[others[0]] != usual.values.get(name, "nothing"):
            return _value(name, other.step, texts, others)
    since = "its first call" if before is None else at(before.step)
    return f"{who} went another way than {_rest(marks, others)} between {since} and {at(other.step)}"


def _value(name: str, step: int | str, texts: Mapping[int, str], others: Sequence[int]) -> str:
    usual = next(text for host, text in sorted(texts.items()) if host not in others)
    said = texts[others[0]]
    return f"{listed(others)} said {name}={said} at step {step}, and {_rest(texts, others)} {name}={usual}"


def at(step: int | str) -> str:
    """`step 4`, or `END` as it is."""
    return step if isinstance(step, str) else f"step {step}"


def _rest(all_hosts: Iterable[int], others: Sequence[int]) -> str:
    return listed([host for host in sorted(all_hosts) if host not in others])


def listed(hosts: Sequence[int], shown: int = 8) -> str:
    """`host 2`, `hosts 2, 3`, `hosts 2, 3 and 40 more`."""
    if len(hosts) == 1:
        return f"host {hosts[0]}"
    more = f" and {len(hosts) - shown} more" if len(hosts) > shown else ""
    return f"hosts {', '.join(map(str, hosts[:shown]))}{more}"
