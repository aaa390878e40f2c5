"""What becomes of words that nobody reads any more? They are lost, and the job goes on."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO, cast

from prefect_tpu.infra.errors import PlatformError


class LastingStream(io.TextIOBase):
    """A stream that never fails: once its reader is gone or its disk is full, what is written goes nowhere.

    A terminal that was closed and `| head -1` must not end a training that runs for days.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError:
            _give_up(self._stream)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            _give_up(self._stream)

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


def make_lasting() -> None:
    """Make standard error a lasting stream, and put the null device where a standard stream was closed.

    Else the next file that is opened would take the closed stream's place, and with it whatever is meant for that.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in the order of their descriptors
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 -- open until the process ends
    sys.stderr = cast(TextIO, LastingStream(sys.stderr))


def answer(line: str, advice: str) -> None:
    """Write the line that scripts read to standard output.

    Raises `PlatformError`, with the advice, where it does not get there.
    """
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError as exc:
        _give_up(sys.stdout)
        raise PlatformError(f"The answer could not be written to standard output: {exc.strerror}. {advice}") from exc


def _give_up(stream: TextIO) -> None:
    """Point the stream to the null device: what it still holds would fail again when Python ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
