"""What did a container write, and what does it write now?"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from prefect_tpu.infra.gcp.calls import Call
from prefect_tpu.infra.gcp.connection import Connection
from prefect_tpu.infra.gcp.errors import Silent, Unavailable
from prefect_tpu.infra.gcp.patience import persevere
from prefect_tpu.infra.gcp.resources import PODS

_STAMPED = re.compile(r"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?P<fraction>\.\d+)?Z (?P<text>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Which lines of a pod.

    container: by default the only one.
    follow: go on until the container has ended.
    tail: how many last lines to begin with; all by default.
    previous: of the container before its last restart.
    since_seconds: only what was written since so long ago.
    """

    container: str | None = None
    follow: bool = False
    tail: int | None = None
    previous: bool = False
    since_seconds: int | None = None


IsOver = Callable[[], Awaitable[bool]]


async def believe_end() -> bool:
    """A stream that ends has said all there is."""
    return True


async def read_log(
    connection: Connection, namespace: str, pod: str, query: LogQuery, is_over: IsOver = believe_end
) -> AsyncGenerator[str, None]:
    """The lines of a container, in the order it wrote them.

    A connection that broke, or that fell silent while it follows, is made anew and goes on after the last line. So is
    one that came to its end where `is_over` says no: an API server that restarts ends its streams in good order.
    """
    reader = _Reader(connection, namespace, pod, query)
    try:
        while True:
            line = await persevere(
                reader.next_line,
                connection.patience,
                seconds=connection.patience.unreachable,
                is_worth=lambda error: isinstance(error, Unavailable),
            )
            if line is not None:
                yield line
            elif await is_over():
                return
    finally:
        await reader.close()


class _Reader:
    """How far a log was read: up to which time, and how many lines of that time. Kubernetes stamps each line for us."""

    def __init__(self, connection: Connection, namespace: str, pod: str, query: LogQuery) -> None:
        self._connection, self._namespace, self._pod, self._query = connection, namespace, pod, query
        self._lines: AsyncGenerator[bytes, None] | None = None
        self._last = ("", 0.0)
        self._read_of_last = 0
        self._to_skip = 0

    async def close(self) -> None:
        lines, self._lines = self._lines, None
        if lines is not None:
            await lines.aclose()

    async def next_line(self) -> str | None:
        """The next line, or `None` at the end. After an error it may be asked again and goes on from where it was."""
        while True:
            if self._lines is None:
                self._lines, self._to_skip = self._connection.lines(self._call()), self._read_of_last
            try:
                async for line in self._lines:
                    if (text := self._new_text(line.decode(errors="replace"))) is not None:
                        return text
                await self.close()
                return None
            except Silent:  # no error while a program computes
                await self.close()
            except BaseException:
                await self.close()
                raise

    def _new_text(self, line: str) -> str | None:
        """What the container wrote, or `None` for a line that came over the connection before."""
        stamped = _STAMPED.fullmatch(line)
        if stamped is None:
            return line
        time = stamped["second"], float(f"0{stamped['fraction'] or '.0'}")
        if self._to_skip > 0 and time <= self._last:
            self._to_skip -= time == self._last
            return None
        self._to_skip = 0
        if time >= self._last:  # two streams of a container are not stamped in the order in which they are written
            self._read_of_last = self._read_of_last + 1 if time == self._last else 1
            self._last = time
        return stamped["text"]

    def _call(self) -> Call:
        return Call(
            verb="get", resource=PODS, namespace=self._namespace, name=self._pod, part="log", query=self._asked()
        )

    def _asked(self) -> dict[str, str]:
        query, second = self._query, self._last[0]
        again = {"sinceTime": f"{second}Z"} if second else {}
        numbers = {} if second else {"tailLines": query.tail, "sinceSeconds": query.since_seconds}
        flags = {"follow": query.follow, "previous": query.previous, "timestamps": True}
        return {
            **({"container": query.container} if query.container else {}),
            **{name: str(value) for name, value in numbers.items() if value is not None},
            **{name: "true" for name, value in flags.items() if value},
            **again,
        }
