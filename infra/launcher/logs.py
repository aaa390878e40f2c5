"""What did the hosts print? Lines of an attempt's logs, as far as they are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prefect_tpu.infra import layout
from prefect_tpu.infra.storage import LocalStorage

BLOCK_BYTES = 2**20


class Tail:
    """One host's log, read on from where the last look ended."""

    def __init__(self, storage: LocalStorage, attempt: int, host: int, prefix: str = "") -> None:
        self._path = storage.path(layout.log(attempt, host))
        self._prefix, self._offset, self._half = prefix, 0, b""

    def lines(self, *, to_end: bool = False) -> Iterator[str]:
        """New lines since the last look; the last one only when it is whole or the log has its end."""
        while block := self._read():
            *whole, self._half = (self._half + block).split(b"\n")
            yield from map(self._line, whole)
        if to_end and self._half:
            half, self._half = self._half, b""
            yield self._line(half)

    def _read(self) -> bytes:
        try:
            with self._path.open("rb") as log:
                log.seek(self._offset)
                block = log.read(BLOCK_BYTES)
        except FileNotFoundError:  # the host has not started
            return b""
        self._offset += len(block)
        return block

    def _line(self, raw: bytes) -> str:
        return f"{self._prefix}{raw.decode(errors='replace').rstrip(chr(13))}"


def tails(storage: LocalStorage, attempt: int, hosts: Sequence[int]) -> list[Tail]:
    """The logs of some hosts; lines of several say whose they are."""
    width = len(str(max(hosts, default=0)))
    prefixes = [f"host {host:{width}} | " if len(hosts) > 1 else "" for host in hosts]
    return [Tail(storage, attempt, host, prefix) for host, prefix in zip(hosts, prefixes, strict=True)]
