"""Which lines of a log file are new, and where do its last ones begin?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

BLOCK_BYTES = 65_536


def read_lines(path: Path, position: int, *, whole: bool) -> tuple[list[str], int]:
    """Some new lines of a file and where to go on, where there are none any more; a log may be larger than memory.

    With `whole`, a line without its end waits.
    """
    try:
        with path.open("rb") as file:
            file.seek(position)
            raw = b"".join(file.readlines(BLOCK_BYTES))
    except FileNotFoundError:
        return [], position
    if whole:
        raw = raw[: raw.rfind(b"\n") + 1]
    return raw.decode(errors="replace").splitlines(), position + len(raw)


def last_lines(path: Path, count: int) -> int:
    """Where the last `count` lines begin; read from the end, for a log may be long."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            return end if count == 0 else _beginning(file, end, count)
    except FileNotFoundError:
        return 0


def _beginning(file: BinaryIO, end: int, count: int) -> int:
    position, found = end, 0
    while position > 0:
        start = max(0, position - BLOCK_BYTES)
        file.seek(start)
        block = file.read(position - start)
        index = len(block) - (1 if position == end and block.endswith(b"\n") else 0)  # the last line's own end
        while (index := block.rfind(b"\n", 0, index)) != -1:
            found += 1
            if found == count:
                return start + index + 1
        position = start
    return 0
