"""What does a window say? `skip=10,steps=5`: which steps of a program are recorded for a profile."""

from __future__ import annotations

import re
from dataclasses import dataclass

from prefect_tpu.infra.errors import UsageError

SKIP, STEPS = 10, 5  # where only one of them is given: past compilation and warm-up, and few enough to look at
GRAMMAR = "skip=N,steps=M"
_PART = re.compile(r"(skip|steps)=(\d{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Record `steps` steps once a host has reported `skip` of them."""

    skip: int = SKIP
    steps: int = STEPS

    def __str__(self) -> str:
        return f"skip={self.skip},steps={self.steps}"


def parse_window(text: str) -> Window:
    """Read `skip=N,steps=M`, of which one may be left out. Raises `UsageError` with what can be written."""
    found = [_PART.fullmatch(part.strip()) for part in text.lower().split(",")]
    parts = {part[1]: int(part[2]) for part in found if part}
    if len(parts) < len(found):
        raise UsageError(f"Profile {text!r} names no steps: write {GRAMMAR}, such as {Window()}.")
    window = Window(**parts)
    if window.skip < 1 or window.steps < 1:
        raise UsageError(
            f"Profile {text!r} records nothing: both numbers are 1 at least. A recording begins with a report, and the"
            " step before the first one compiles."
        )
    return window
