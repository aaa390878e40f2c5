"""What becomes of words that do not arrive? News are lost, and the job goes on; an answer that is lost is an error."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import TextIO, cast

from prefect_tpu.infra.errors import PlatformError


class HeededStream(io.TextIOBase):
    """A standard stream whose failures are heard by a function: what it does not raise is lost and no matter."""

    def __init__(self, stream: TextIO, failed: Callable[[TextIO, OSError], None]) -> None:
        self._stream, self._failed = stream, failed

    def write(self, text: str) -> int:
        if text == "":  # typer tries whether this is a stream of bytes: nothing to fail at
            return 0
        try:
            self._stream.write(text)
        except OSError as exc:
            self._failed(self._stream, exc)
        return len(text)

    def flush(self) -> None:
        if self._stream.closed:  # nothing waits in it; Python itself flushes what it throws away
            return
        try:
            self._stream.flush()
        except OSError as exc:
            self._failed(self._stream, exc)

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._stream.errors


def _lose(stream: TextIO, exc: OSError) -> None:
    """A terminal that was closed and `2>&1 | head -1` must not end a training that runs for days."""
    _give_up(stream)


def _refuse(stream: TextIO, exc: OSError) -> None:
    """A disk that is full is an error that says so; a reader that has gone, as `| head` does, is the shell's affair."""
    if isinstance(exc, BrokenPipeError):
        raise exc
    _give_up(stream)
    raise PlatformError(f"The answer could not be written to standard output: {exc.strerror}.") from exc


def make_lasting() -> None:
    """Make standard error a lasting stream and standard output one that says what it cannot take.

    A standard stream that was closed becomes the null device: else the next file that is opened would take its place,
    and with it whatever is meant for that. What a terminal's encoding lacks is written with backslashes.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in the order of their descriptors
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 -- open until the process ends
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout = cast(TextIO, HeededStream(sys.stdout, _refuse))
    sys.stderr = cast(TextIO, HeededStream(sys.stderr, _lose))


def answer(line: str, advice: str) -> None:
    """Write the line that scripts read to standard output.

    Raises `PlatformError`, with the advice, where it does not get there.
    """
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except PlatformError as exc:
        raise PlatformError(f"{exc} {advice}") from exc
    except OSError as exc:
        _give_up(sys.stdout)
        raise PlatformError(f"The answer could not be written to standard output: {exc.strerror}. {advice}") from exc


def _give_up(stream: TextIO) -> None:
    """Point the stream to the null device: what it still holds would fail again when Python ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
