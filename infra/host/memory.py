"""Did the kernel kill somebody because there was no memory left? It counts whom it kills for that."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
LOOK_SECONDS = 1.0


def counters(proc: Path = Path("/proc"), control: Path = Path("/sys/fs/cgroup")) -> Iterator[Path]:
    """Where the kernel counts its kills, the nearest to this process first: its control group, then the machine.

    Inside a container the folder of its group is often the root of what can be seen.
    """
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for number, controllers, group in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if number == "0":
            yield from (control / group.lstrip("/") / "memory.events", control / "memory.events")
        elif "memory" in controllers.split(","):
            root = control / "memory"
            yield from (root / group.lstrip("/") / "memory.oom_control", root / "memory.oom_control")
    yield proc / "vmstat"


def kills(paths: Sequence[Path]) -> int | None:
    """The count of the first that has one; None where the kernel does not say."""
    for path in paths:
        try:
            found = _COUNT.search(path.read_text())
        except OSError:
            continue
        if found:
            return int(found[1])
    return None


class KillCount:
    """Whether the kernel killed somebody in the last seconds. The look before the last counts too: a kill is counted
    a moment before the program is seen to have ended."""

    def __init__(self, paths: Sequence[Path], now: float) -> None:
        self._paths = paths
        self._seen = deque([kills(paths)], maxlen=2)
        self._next_look = now + LOOK_SECONDS

    def look(self, now: float) -> None:
        if now >= self._next_look:
            self._seen.append(kills(self._paths))
            self._next_look = now + LOOK_SECONDS

    @property
    def has_grown(self) -> bool:
        before, count = self._seen[0], kills(self._paths)
        return before is not None and count is not None and count > before
