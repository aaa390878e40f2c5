"""What is a check of `prefect-tpu doctor`, and how long may it take?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

PATIENCE_SECONDS = 15.0  # for all checks together: a disk or a server that does not answer must not hold a person up


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


def look_at_all(looks: Mapping[str, Look], patience: float = PATIENCE_SECONDS) -> Sequence[Check]:
    """All checks side by side, in their order; one that does not answer in time, or breaks, says so itself."""
    answers: dict[str, Check] = {}
    done = {name: threading.Event() for name in looks}

    def answer(name: str, look: Look) -> None:
        try:
            answers[name] = look()
        except Exception as exc:  # whatever a strange machine makes of a check, the others are worth having
            answers[name] = warn(name, f"could not be looked at: {exc}", "Look at it yourself.")
        done[name].set()

    give_up = time.monotonic() + patience
    for name, look in looks.items():  # threads that end with this process, whatever they wait for
        threading.Thread(target=answer, args=(name, look), daemon=True).start()
    for event in done.values():
        event.wait(max(0.0, give_up - time.monotonic()))
    late = f"did not answer within {patience:.0f} s"
    return [answers.get(name) or warn(name, late, "Look whether its disk or server hangs.") for name in looks]
