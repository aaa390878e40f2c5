"""One region on this host: a process of its own with the whole environment of a program, and how it ended.

Regions come one after another. What one reports lies where the host's runner looks for a program's reports; its code,
its plan and what it returns lie in a folder of the region's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from prefect_tpu.infra import contract
from prefect_tpu.infra.contract import Env, Event, ExitCode, KilledBy, ProgramError, Scratch
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.host import payload
from prefect_tpu.infra.host.assignment import own_archive
from prefect_tpu.infra.host.environment import program_environment
from prefect_tpu.infra.host.memory import KillCount, counters
from prefect_tpu.infra.host.region_ends import Part
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.regions import Message
from prefect_tpu.infra.scratch import overwrite, read_json, signs_of_life

PLAN = "plan.json"
Ended = Callable[[int, Part, bytes], None]  # which region, how, and what it returned or raised


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    number: int
    folder: Path
    process: subprocess.Popen[bytes]
    memory: KillCount
    events_before: int
    is_value_wanted: bool


class RegionProcess:
    """At most one region at a time. Its methods are called by one thread, which must live as long as this process.

    ended: called in a thread of its own once nothing of a region's process is left.
    """

    def __init__(self, plan: HostPlan, host: int, scratch: Path, ended: Ended) -> None:
        self._plan, self._host, self._scratch, self._ended = plan, host, scratch, ended
        self._running: _Running | None = None
        self._is_told = self._is_cut = False

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def begin(self, message: Message) -> None:
        """Start what the leader's agent sent; a host that cannot says so as the end of its part."""
        number = int(message.facts["number"])
        self._is_told = self._is_cut = False
        try:
            folder = self._lay_out(number, message)
            is_value_wanted = self._host == 0 or bool(message.facts["gather"])
            self._running = self._start(number, folder, is_value_wanted)
        except (PrefectTpuError, payload.PayloadRefused, OSError) as exc:
            code = ExitCode.PAYLOAD_REFUSED if isinstance(exc, payload.PayloadRefused) else ExitCode.CANNOT_BEGIN
            error = ProgramError(type=type(exc).__name__, message=str(exc), traceback="")
            self._ended(number, Part(returncode=1, outcome={"exit_code": code, "error": asdict(error)}), b"")
            return
        threading.Thread(target=self._wait, args=(self._running,), name=f"region {number}", daemon=True).start()

    def tell(self) -> None:
        """It must save and leave."""
        if self._running is not None and not self._is_told:
            self._is_told = True
            with contextlib.suppress(ProcessLookupError):
                self._running.process.send_signal(signal.SIGTERM)

    def cut(self, *, though_told: bool = False) -> None:
        """End it at once, and all that it started; but for one that was told to leave, which may be saving.

        That one ends within the grace of its host: its runner sees to it, or who told it cuts it `though_told`.
        """
        if self._running is not None and not self._is_cut and (though_told or not self._is_told):
            self._is_cut = True
            _kill_group(self._running.process.pid)

    def look(self) -> None:
        """To be called now and then: whether the kernel killed somebody is known by a count that has grown."""
        if self._running is not None:
            self._running.memory.look(time.monotonic())

    def over(self, number: int) -> None:
        """The end of this region was heard of."""
        if self._running is not None and self._running.number == number:
            self._running = None

    def _lay_out(self, number: int, message: Message) -> Path:
        regions = self._scratch / Scratch.REGIONS
        shutil.rmtree(regions, ignore_errors=True)  # what came of the one before has been sent
        folder = regions / str(number)
        payload.extract(message.parts[0], folder / payload.WORK, "the region's code")
        plan = replace(
            self._plan,
            program=Program(kind="function", target=str(message.facts["name"])),
            coordinator=str(message.facts["coordinator"]),
            region=str(message.facts["region"]),
        )
        (folder / PLAN).write_bytes(plan.to_json())
        return folder

    def _start(self, number: int, folder: Path, is_value_wanted: bool) -> _Running:
        plan = HostPlan.from_json((folder / PLAN).read_bytes())
        own = {
            Env.PLAN: str(folder / PLAN),
            Env.SCRATCH: str(self._scratch),
            Env.REGION: str(folder),
            Env.PARENT: str(os.getpid()),
            **{name: os.environ[name] for name in (Env.RUNNER, Env.STARTED)},
        }
        environment = program_environment(plan, self._host, inherited=os.environ, own=own, archive=own_archive())
        events, before = _size(self._scratch / Scratch.EVENTS), signs_of_life(self._scratch)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "prefect_tpu.infra.host.program"],
            cwd=folder / payload.WORK,
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        overwrite(self._scratch / Scratch.REGION, contract.write_json({"group": process.pid, "before": before}))
        memory = KillCount(tuple(counters()), time.monotonic())
        return _Running(
            number=number,
            folder=folder,
            process=process,
            memory=memory,
            events_before=events,
            is_value_wanted=is_value_wanted,
        )

    def _wait(self, running: _Running) -> None:
        returncode = running.process.wait()
        is_out_of_memory = returncode == -signal.SIGKILL and not self._is_cut and running.memory.has_grown
        _kill_group(running.process.pid)
        (self._scratch / Scratch.REGION).unlink(missing_ok=True)
        outcome = read_json(running.folder / Scratch.OUTCOME)
        part = Part(
            returncode=returncode,
            outcome=outcome if outcome is not None and "exit_code" in outcome else None,
            has_joined=_has_joined(self._scratch / Scratch.EVENTS, running.events_before),
            is_told=self._is_told,
            is_cut=self._is_cut and outcome is None,
            killed_by=KilledBy.MEMORY.value if is_out_of_memory else None,
        )
        self._ended(running.number, part, _body(running.folder, outcome or {}, running.is_value_wanted))


def _body(folder: Path, outcome: Mapping[str, object], is_value_wanted: bool) -> bytes:
    """What goes to the leader, which has what all hosts sent in memory: no value that the flow does not get."""
    for fact, name in (("result", Scratch.VALUE), ("exception", Scratch.EXCEPTION)):
        if fact in outcome and (fact != "result" or is_value_wanted):
            with contextlib.suppress(OSError):
                return (folder / name).read_bytes()
    return b""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _has_joined(events: Path, before: int) -> bool:
    """Whether the region, and none before it, said that the hosts have met."""
    with contextlib.suppress(OSError, ValueError, KeyError), events.open("rb") as file:
        file.seek(before)
        return any(json.loads(line)["event"] == Event.JOINED for line in file)
    return False


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
