"""Was there no memory left? The kernel counts whom it kills for that, and exceptions say it themselves."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from prefect_tpu.infra.host.lost_peer import chain, message

_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED",)  # how messages of JAX begin when chips or host have none
_JAX_ERRORS = frozenset({"JaxRuntimeError", "XlaRuntimeError"})
_TORCH_ERROR = "OutOfMemoryError"
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


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the error, or one that led to it, says that memory ran out, of the host or of its chips."""
    return any(_says_so(link) for link in chain(error))


def _says_so(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == _TORCH_ERROR:
        return True
    return type(error).__name__ in _JAX_ERRORS and message(error).startswith(_OUT_OF_MEMORY)
