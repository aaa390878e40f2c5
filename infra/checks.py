"""What is a check of `prefect-tpu doctor`? A look at one thing, what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"  # jobs run, but perhaps not as one thinks
    FAIL = "fail"  # jobs will not run


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What was looked at, what was found, and what to do about it."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""

    @property
    def has_failed(self) -> bool:
        return self.verdict is Verdict.FAIL

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


Look = Callable[[], Check]


def ok(name: str, found: str) -> Check:
    return Check(name=name, verdict=Verdict.OK, found=found)


def warn(name: str, found: str, advice: str) -> Check:
    return Check(name=name, verdict=Verdict.WARN, found=found, advice=advice)


def fail(name: str, found: str, advice: str) -> Check:
    return Check(name=name, verdict=Verdict.FAIL, found=found, advice=advice)


def at_least(name: str, found: str, value: float, *, warns_below: float, fails_below: float, advice: str) -> Check:
    """A number that should be large."""
    if value < fails_below:
        return fail(name, found, advice)
    return warn(name, found, advice) if value < warns_below else ok(name, found)
