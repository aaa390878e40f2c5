"""What a host of a flow does: on the leader its command runs, and every host starts regions when it is told to.

Here is the part of a host that follows; `leader` has the other one. Both return the outcome of this host, by which its
runner knows how it went: an agent is its program.
"""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from prefect_tpu.infra import regions
from prefect_tpu.infra.contract import Env, ExitCode
from prefect_tpu.infra.errors import CouldNotJoin
from prefect_tpu.infra.host import region_ends
from prefect_tpu.infra.host.leader import Leader
from prefect_tpu.infra.host.payload import PayloadRefused
from prefect_tpu.infra.host.region import RegionProcess
from prefect_tpu.infra.host.region_ends import Part
from prefect_tpu.infra.host.signals import Notice, ToldToLeave
from prefect_tpu.infra.host.turns import Turns
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.regions import Channel, Message

LEFT = {"exit_code": ExitCode.PREEMPTED}


def serve(plan: HostPlan, host: int, scratch: Path) -> dict[str, Any]:
    """Until the flow is over, or this host must leave.

    Raises:
        PayloadRefused: the region key is missing, or is another one than the leader's.
        CouldNotJoin: the hosts of the flow did not meet in time.
    """
    notice, key = Notice(), _key(plan)
    if host == 0:
        return Leader(plan, scratch, notice, key).lead()
    try:
        with notice.interrupting():
            channel = _call(plan, host, key)
    except ToldToLeave:
        return LEFT
    return Follower(plan, host, scratch, notice, channel).follow()


def _key(plan: HostPlan) -> str:
    key = os.environ.get(Env.REGION_KEY)
    if key:
        return key
    where = f"its file in {plan.output}" if plan.backend == "local" else "the Secret of the job"
    raise PayloadRefused(
        f"Job {plan.job!r} runs a flow, and this host was given no region key ({Env.REGION_KEY}), by which its hosts"
        f" know each other: it comes from {where}, which whoever submits the job makes."
    )


def _call(plan: HostPlan, host: int, key: str) -> Channel:
    try:
        return regions.call(
            plan.regions or "", key, {"role": "host", "host": host, "mark": plan.mark}, plan.join_timeout
        )
    except regions.KeyRefused as exc:
        raise PayloadRefused(str(exc)) from exc
    except regions.NotReached as exc:
        raise CouldNotJoin(f"Host {host} of {plan.mark} did not come to its leader: {exc}") from exc


class Follower:
    """Any host but the leader."""

    def __init__(self, plan: HostPlan, host: int, scratch: Path, notice: Notice, channel: Channel) -> None:
        self._notice, self._channel, self._turns, self._grace = notice, channel, Turns(), plan.grace
        self._region = RegionProcess(plan, host, scratch, self._heard_of_an_end)
        self._last: Part | None = None  # how the newest region ended here
        self._why: str | None = None  # what ended the attempt, once something has
        self._is_done = False  # the flow is over
        self._saves_until: float | None = None  # after that a region that was left to its saving is cut
        self._outcome: dict[str, Any] = LEFT

    def follow(self) -> dict[str, Any]:
        threading.Thread(target=self._listen, name="the leader's agent", daemon=True).start()
        self._turns.run(self._is_over)
        self._channel.close()
        return self._outcome

    def _is_over(self) -> bool:
        self._region.look()
        if self._notice.is_given:
            self._region.tell()
        if self._region.is_running:  # it may be saving, also where the flow is over
            if self._saves_until is not None and time.monotonic() > self._saves_until:
                self._region.cut(though_told=True)
            return False
        if self._is_done:
            self._outcome = {"exit_code": ExitCode.DONE}
        elif self._why is not None and not self._notice.is_given:
            self._outcome = region_ends.account(self._last, self._why)
        return self._is_done or self._notice.is_given or self._why is not None

    def _listen(self) -> None:
        try:
            while True:
                self._turns.post(partial(self._obey, self._channel.receive()))
        except (OSError, ValueError) as exc:
            self._turns.post(partial(self._end, f"The leader of the flow is gone ({exc})."))

    def _obey(self, message: Message) -> None:
        match message.kind:
            case "begin":
                self._last = None
                self._region.begin(message)
            case "cut":
                self._region.cut()
            case "lost":
                self._end(str(message.facts["why"]))
            case "over":
                self._flow_is_over(is_leaving=bool(message.facts.get("is_leaving")))

    def _flow_is_over(self, *, is_leaving: bool) -> None:
        """A leader that had to leave may be faster than this host's own notice: here too there may be much to save."""
        self._is_done = True
        if is_leaving:
            self._region.tell()
            self._saves_until = time.monotonic() + self._grace
        else:
            self._region.cut()

    def _end(self, why: str) -> None:
        if self._why is None:
            self._why = why
        self._region.cut()

    def _heard_of_an_end(self, number: int, part: Part, body: bytes) -> None:
        self._turns.post(partial(self._tell_of_an_end, number, part, body))

    def _tell_of_an_end(self, number: int, part: Part, body: bytes) -> None:
        self._region.over(number)
        self._last = part
        try:
            self._channel.send(Message(kind="ended", facts={"number": number, "part": part.to_json()}, parts=(body,)))
        except OSError as exc:
            self._end(f"The leader of the flow is gone ({exc}).")
