"""What a container writes, line by line with its time, as a kubelet keeps it; and what a request for it selects."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kubelet.clock import precisely_now, seconds_since_epoch

LOOK_SECONDS = 0.05


class LogWriter:
    """Copies a pipe into a file until the pipe's end."""

    def __init__(self, pipe: IO[bytes], path: Path) -> None:
        self._pipe, self._path = pipe, path
        self._thread = threading.Thread(target=self._copy, name=f"log-{path}", daemon=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._thread.start()

    def finish(self) -> None:
        """Wait until everything is written; whoever holds the pipe must be gone."""
        self._thread.join(5)

    def _copy(self) -> None:
        with self._pipe, self._path.open("ab", buffering=0) as log:
            for line in self._pipe:
                log.write(f"{precisely_now()} ".encode() + line.rstrip(b"\n") + b"\n")


def last_lines(path: Path, limit: int = 2048) -> str:
    """The end of a log without its times: 80 lines or `limit` bytes, whichever is less."""
    lines = [_text(line) for line in path.read_bytes().splitlines(keepends=True)[-80:]]
    return b"".join(lines)[-limit:].decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which lines are asked for."""

    tail: int | None
    limit: int | None
    since: float
    has_times: bool
    is_followed: bool

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Selection:
        """From the query of a request."""
        since = seconds_since_epoch(query["sinceTime"]) if "sinceTime" in query else 0.0
        if "sinceSeconds" in query:
            since = time.time() - int(query["sinceSeconds"])
        return cls(
            tail=int(query["tailLines"]) if "tailLines" in query else None,
            limit=int(query["limitBytes"]) if "limitBytes" in query else None,
            since=since,
            has_times=query.get("timestamps") == "true",
            is_followed=query.get("follow") == "true",
        )


def read(path: Path, selection: Selection, is_over: threading.Event) -> Iterator[bytes]:
    """The selected lines; followed, until `is_over` is set and nothing is left."""
    left = selection.limit
    with path.open("rb") as log:
        lines = [line for line in log if _time(line) >= selection.since]
        first = 0 if selection.tail is None else max(0, len(lines) - selection.tail)
        for line in [*lines[first:], None]:
            if line is None:
                break
            shown = line if selection.has_times else _text(line)
            shown = shown if left is None else shown[:left]
            left = None if left is None else left - len(shown)
            yield shown
        if selection.is_followed and left is None:
            yield from (line if selection.has_times else _text(line) for line in _more(log, is_over))


def _more(log: IO[bytes], is_over: threading.Event) -> Iterator[bytes]:
    """Whole lines as they come."""
    rest = b""
    while True:
        was_over = is_over.is_set()
        rest += log.read()
        *lines, rest = rest.split(b"\n")
        yield from (line + b"\n" for line in lines)
        if was_over:
            return
        is_over.wait(LOOK_SECONDS)


def _text(line: bytes) -> bytes:
    return line.partition(b" ")[2]


def _time(line: bytes) -> float:
    return seconds_since_epoch(line.partition(b" ")[0].decode())
