"""Of one region, as its leader sees it: who asked for it, which hosts have ended their parts, and who is late."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prefect_tpu.infra.contract import ExitCode
from prefect_tpu.infra.host import region_ends
from prefect_tpu.infra.host.region_ends import Part
from prefect_tpu.infra.regions import Channel, Message

VERDICT_SECONDS = 2.0  # after the first bad end, for the others to say how they ended: as the launcher waits
CUT_SECONDS = 15.0  # for killed processes to be gone


@dataclass(slots=True)
class Asked:
    """A region that the flow asked for. `is_dropped`: nobody waits for it any more."""

    channel: Channel
    name: str
    key: str
    gather: bool
    payload: bytes
    since: float
    is_dropped: bool = False

    @classmethod
    def read(cls, channel: Channel, message: Message) -> Asked:
        said = message.facts
        return cls(
            channel=channel,
            name=str(said["name"]),
            key=str(said["key"]),
            gather=bool(said["gather"]),
            payload=message.parts[0],
            since=time.monotonic(),
        )


@dataclass(slots=True)
class RunningRegion:
    """`order`: of the hosts, as they ended."""

    number: int
    asked: Asked
    hosts: int
    grace: float
    parts: dict[int, Part] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    _bodies: dict[int, bytes] = field(default_factory=dict)
    _cut_from: float | None = None
    _cut_at: float | None = None

    @property
    def name(self) -> str:
        return self.asked.name

    @property
    def is_complete(self) -> bool:
        return len(self.parts) == self.hosts

    @property
    def are_all_done(self) -> bool:
        return self.is_complete and all(part.is_done for part in self.parts.values())

    @property
    def why(self) -> str:
        """What ended it, for people: the first that was no echo of another."""
        own = [host for host in self.order if not self.parts[host].is_done and not self.parts[host].is_cut]
        lost = [host for host in own if self.parts[host].is_lost] or own
        said = f"host {lost[0]} {region_ends.told(self.parts[lost[0]])}" if lost else "no host says why"
        return f"Region {self.name!r} did not return: {said}."

    def add(self, host: int, part: Part, body: bytes, now: float) -> None:
        self.parts[host], self._bodies[host] = part, body
        self.order.append(host)
        if not part.is_done:
            self._cut_from = min(self._cut_from or now + self._patience(part), now + self._patience(part))

    def _patience(self, part: Part) -> float:
        """Hosts that leave together are saving; one that was killed says all that there is to know."""
        if part.exit_code == ExitCode.PREEMPTED:
            return self.grace
        return 0.0 if part.is_killed else VERDICT_SECONDS

    def is_to_be_cut(self, now: float) -> bool:
        return self._cut_at is None and self._cut_from is not None and now >= self._cut_from

    def was_cut(self, now: float) -> None:
        self._cut_at = now

    def late(self, now: float) -> list[int]:
        """Hosts that have not ended though they were killed long ago."""
        if self._cut_at is None or now < self._cut_at + CUT_SECONDS:
            return []
        return [host for host in range(self.hosts) if host not in self.parts]

    def values(self) -> Iterator[Message]:
        """What the flow is sent of a region that returned."""
        for host in range(self.hosts if self.asked.gather else 1):
            yield Message(kind="value", facts={"host": host, **self._fact(host, "result")}, parts=(self._bodies[host],))
        yield Message(kind="returned")

    def error_of(self, host: int) -> Message:
        """What the flow is sent of what a host's program raised."""
        part = self.parts[host]
        facts = {
            "host": host,
            "told": region_ends.told(part),
            **self._fact(host, "error"),
            **self._fact(host, "exception"),
        }
        return Message(kind="raised", facts=facts, parts=(self._bodies[host],))

    def _fact(self, host: int, name: str) -> dict[str, Any]:
        outcome = self.parts[host].outcome or {}
        return {name: outcome.get(name)}
