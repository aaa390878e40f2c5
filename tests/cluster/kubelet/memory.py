"""How much memory a container takes: everything that cannot be dropped, of all its processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def used_bytes(process: int) -> int:
    """Of a process and of all it started."""
    return sum(_own(one) for one in _family(process))


def _family(process: int) -> Iterator[int]:
    yield process
    try:
        threads = list(Path(f"/proc/{process}/task").iterdir())
        children = [child for thread in threads for child in (thread / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in children:
        yield from _family(int(child))


def _own(process: int) -> int:
    """Pages of its own; files that several map are not counted for each."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
