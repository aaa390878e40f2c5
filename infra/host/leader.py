"""The leader of a flow: its command runs here, and whatever region it asks for, all hosts run at once.

Who may speak with it has proved to know the job's key. Regions go one at a time, in the order in which they were asked
for. When one ends otherwise than by its program's own doing, nobody answers the flow any more: it is ended, as it is.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections import Counter, deque
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from prefect_tpu.infra import addresses, regions
from prefect_tpu.infra.contract import REGION_LOST, ExitCode, ProgramError
from prefect_tpu.infra.errors import CouldNotJoin, PlatformError
from prefect_tpu.infra.host import region_ends
from prefect_tpu.infra.host.flow_process import FlowProcess
from prefect_tpu.infra.host.region import RegionProcess
from prefect_tpu.infra.host.region_ends import Part
from prefect_tpu.infra.host.running_region import Asked, RunningRegion
from prefect_tpu.infra.host.signals import Notice
from prefect_tpu.infra.host.turns import Turns
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.regions import Channel, Message

MOST_STRANGERS = 64  # who have not said yet who they are


class Leader:
    """Host 0. Only the thread that calls `lead` changes anything."""

    def __init__(self, plan: HostPlan, scratch: Path, notice: Notice, key: str) -> None:
        self._plan, self._notice, self._key, self._turns = plan, notice, key, Turns()
        self._flow = FlowProcess(plan)
        self._region = RegionProcess(plan, 0, scratch, self._heard_of_an_end)
        self._hosts: dict[int, Channel] = {}
        self._waiting: deque[Asked] = deque()
        self._running: RunningRegion | None = None
        self._number = 0
        self._completed: Counter[str] = Counter()  # regions that returned, by what they are
        self._last: Part | None = None  # how the newest region ended on this host
        self._lost: dict[str, Any] | None = None  # this host's outcome, once a region or a host has ended the attempt
        self._away: dict[int, str] = {}  # hosts that have gone, and how
        self._strangers = threading.BoundedSemaphore(MOST_STRANGERS)

    def lead(self) -> dict[str, Any]:
        """Run the command to its end; this host's outcome."""
        with self._listening() as server:
            threading.Thread(target=self._accept, args=(server,), name="regions", daemon=True).start()
            self._flow.start()
            self._turns.run(self._is_over)
        for channel in self._hosts.values():
            _send(channel, Message(kind="over", facts={"is_leaving": self._notice.is_given}))
        if self._lost is not None:
            return self._lost
        ended = region_ends.ended(self._flow.returncode or 0)
        return ended if self._flow.was_there else region_ends.of_no_command(self._plan.program.target, ended)

    def _listening(self) -> socket.socket:
        try:
            return addresses.listen(self._plan.regions or "")
        except OSError as exc:
            raise CouldNotJoin(
                f"The flow of {self._plan.mark} could not begin: its leader cannot listen at {self._plan.regions}"
                f" ({exc.strerror}). Another process took that port since the attempt was planned; the next attempt"
                " looks for another one."
            ) from exc

    def _is_over(self) -> bool:
        self._region.look()
        if self._notice.is_given:
            self._region.tell()
            self._flow.tell()
        if self._flow.has_ended:
            self._region.cut()
            return not self._region.is_running
        if self._lost is None:
            self._go_on()
        return False

    def _go_on(self) -> None:
        """Begin what is due, and end what has lasted too long."""
        now = time.monotonic()
        for host, why in self._away.items():
            if self._running is None or host not in self._running.parts:  # else what became of the region says more
                return self._lose(f"Host {host} is gone ({why}).")
        if self._running is not None:
            if self._running.is_to_be_cut(now):
                self._cut(now)
            if late := self._running.late(now):
                self._lose(f"Host {late[0]} did not end its part of region {self._running.name!r} when it had to.")
            return
        while self._waiting and self._waiting[0].is_dropped:
            self._waiting.popleft()
        if not self._waiting:
            return
        missing = sorted(set(range(1, self._plan.hosts)) - set(self._hosts))
        if not missing:
            self._begin(self._waiting.popleft())
        elif now > self._waiting[0].since + self._plan.join_timeout:
            self._not_joined(self._waiting[0], missing)

    def _begin(self, asked: Asked) -> None:
        self._number += 1
        try:
            coordinator = regions.coordinator(self._plan.regions or "", self._number)
        except PlatformError as exc:
            return self._lose(str(exc), CouldNotJoin.__name__)
        facts = {
            "number": self._number,
            "name": asked.name,
            "region": f"{asked.key}-{self._completed[asked.key] + 1}",
            "coordinator": coordinator,
            "gather": asked.gather,
        }
        self._running = RunningRegion(number=self._number, asked=asked, hosts=self._plan.hosts, grace=self._plan.grace)
        message = Message(kind="begin", facts=facts, parts=(asked.payload,))
        for host, channel in list(self._hosts.items()):
            if not _send(channel, message):
                return self._lose(f"Host {host} is gone.")
        self._last = None
        self._region.begin(message)
        _send(asked.channel, Message(kind="began", facts=facts))

    def _cut(self, now: float) -> None:
        assert self._running is not None, "asked of a running region"
        self._running.was_cut(now)
        for channel in self._hosts.values():
            _send(channel, Message(kind="cut"))
        self._region.cut()

    def _heard_of_an_end(self, number: int, part: Part, body: bytes) -> None:
        self._turns.post(partial(self._ended, 0, number, part, body))

    def _ended(self, host: int, number: int, part: Part, body: bytes) -> None:
        if host == 0:
            self._region.over(number)
            self._last = part
        running = self._running
        if running is None or running.number != number:
            return
        running.add(host, part, body, time.monotonic())
        if running.is_complete:
            self._running = None
            if self._lost is None:
                self._judge(running)

    def _judge(self, running: RunningRegion) -> None:
        """What the flow is answered; nothing where the attempt is over."""
        if running.are_all_done:
            self._completed[running.asked.key] += 1
        if running.asked.is_dropped:
            return
        if running.are_all_done:
            for message in running.values():
                _send(running.asked.channel, message)
        elif (host := region_ends.raised_first(running.parts, running.order)) is not None:
            _send(running.asked.channel, running.error_of(host))
        else:
            self._lose(running.why)

    def _not_joined(self, asked: Asked, missing: list[int]) -> None:
        shown = ", ".join(map(str, missing[:8]))
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        self._lose(
            f"Region {asked.name!r} could not begin: of {self._plan.hosts} hosts of {self._plan.mark}, {shown}{more}"
            f" did not come within {self._plan.join_timeout:g} s. Look at the logs of these hosts, or raise"
            " join_timeout.",
            CouldNotJoin.__name__,
        )

    def _lose(self, why: str, kind: str = REGION_LOST) -> None:
        """The attempt is over: the others learn it, and the flow is ended as it is."""
        if self._lost is not None:
            return
        sys.stderr.write(f"prefect-tpu: {why} The flow is ended as it stands, for another attempt to go on.\n")
        for channel in self._hosts.values():
            _send(channel, Message(kind="lost", facts={"why": why}))
        self._region.cut()
        self._flow.end()
        error = ProgramError(type=kind, message=why, traceback="")
        self._lost = region_ends.account(self._last, why)
        if kind == CouldNotJoin.__name__:
            self._lost = {"exit_code": ExitCode.LOST_PEER, "lost_peer": True, "error": asdict(error)}

    def _accept(self, server: socket.socket) -> None:
        """In a thread, until the server is closed."""
        for connection in addresses.callers(server):
            if self._strangers.acquire(blocking=False):
                threading.Thread(target=self._greet, args=(connection,), name="caller", daemon=True).start()
            else:
                connection.close()

    def _greet(self, connection: socket.socket) -> None:
        """In a thread for each caller: until it has said who it is, then for what it says."""
        try:
            try:
                said, channel = regions.answer(connection, self._key, self._plan.mark)
            finally:
                self._strangers.release()
        except (OSError, PlatformError, ValueError) as exc:
            connection.close()
            if isinstance(exc, regions.KeyRefused):
                sys.stderr.write(f"prefect-tpu: {exc} It was sent away.\n")
            return
        host = said.get("host") if said.get("role") == "host" else None
        if host is not None:
            self._turns.post(partial(self._came, int(host), channel))
        try:
            while True:
                self._turns.post(partial(self._hear, host, channel, channel.receive()))
        except (OSError, ValueError) as exc:
            self._turns.post(partial(self._gone, host, channel, str(exc)))

    def _came(self, host: int, channel: Channel) -> None:
        if 0 < host < self._plan.hosts and host not in self._hosts:
            self._hosts[host] = channel
        else:
            channel.close()

    def _hear(self, host: int | None, channel: Channel, message: Message) -> None:
        if message.kind == "ended" and host is not None:
            part = Part(**message.facts["part"])
            self._ended(host, int(message.facts["number"]), part, message.parts[0])
        elif message.kind == "begin" and host is None:
            asked = Asked.read(channel, message)
            if (before := self._running or next(iter(self._waiting), None)) is not None:
                _send(channel, Message(kind="waits", facts={"for": before.name}))
            self._waiting.append(asked)

    def _gone(self, host: int | None, channel: Channel, why: str) -> None:
        channel.close()
        if host is None:
            self._drop(channel)
        elif self._hosts.get(host) is channel:
            del self._hosts[host]
            self._away[host] = why

    def _drop(self, channel: Channel) -> None:
        """Whoever asked for a region does not wait for it any more.

        A flow that was told to leave drops its region too, which may be saving: that one is told when the flow is over.
        """
        for asked in [*self._waiting, *([self._running.asked] if self._running else [])]:
            if asked.channel is channel:
                asked.is_dropped = True
                is_running = self._running is not None and asked is self._running.asked
                if is_running and not self._notice.is_given:
                    self._cut(time.monotonic())


def _send(channel: Channel, message: Message) -> bool:
    """Whether it went out; whoever is gone is heard of by its own thread."""
    try:
        channel.send(message)
    except (OSError, ValueError):
        return False
    return True
