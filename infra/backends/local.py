"""Slices whose hosts are processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence

import anyio

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.accelerators import Slice, resolve
from prefect_tpu.infra.backends import local_checks, local_limits
from prefect_tpu.infra.backends.base import Attempt, Handle, Held, LogLine, Place, Plan, Refused, Remnant
from prefect_tpu.infra.backends.local_gpus import LocalGpus, stand_in
from prefect_tpu.infra.backends.local_keys import region_key
from prefect_tpu.infra.backends.local_logs import last_lines, read_lines
from prefect_tpu.infra.backends.local_ports import free_port
from prefect_tpu.infra.backends.local_processes import (
    Marked,
    is_alive,
    kill_marked,
    marked_below,
    notice_withheld,
)
from prefect_tpu.infra.backends.local_slices import (
    LocalSlices,
    SliceLock,
    slice_count,
    whole_number,
)
from prefect_tpu.infra.backends.local_view import runner_of, view
from prefect_tpu.infra.checks import Look
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.places import data_folder, job_output
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.quota import Limit, Ruling, missing
from prefect_tpu.infra.state import HostObservation, Observation, Offer, WaitFor, Waiting
from prefect_tpu.infra.storage import BUCKET, LocalStorage, open_storage

DEFAULT_MAX_HOSTS = 16
LOOK_SECONDS = 0.1
NO_SLICE = -1  # in place of the number of a slice, for what takes none of this machine's
LONGEST_SILENCE_SECONDS = 30.0


class LocalBackend:
    """A slice of N hosts is N runner processes with the devices of the accelerator.

    TPU names run on CPU devices of the same number; GPU names on the GPUs of
    this machine where it has them, else on CPU devices too.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = dict(os.environ if environment is None else environment)
        self._gpus = LocalGpus(self._environment)
        self._slices = LocalSlices(data_folder(self._environment) / "slices", slice_count(self._environment))
        self._locks: dict[int, SliceLock] = {}
        self._held: dict[str, Held] = {}  # by the output of the job that has the slice
        self._children: dict[tuple[str, int], subprocess.Popen[bytes]] = {}

    @property
    def look_seconds(self) -> float:
        return LOOK_SECONDS

    def default_output(self) -> str:
        return job_output(self._environment)

    def check(self, job: SliceJob, output: str) -> None:
        if output.startswith(BUCKET):
            raise UsageError(
                f"Output {output!r} is no folder of this machine, where hosts of backend 'local' write: name a folder"
                " with --output or PREFECT_TPU_OUTPUT."
            )
        for name in job.accelerators if job.slices > 1 else ():
            if resolve(name, dialect=job.dialect).platform == "gpu":
                raise UsageError(f"{job.slices} slices of {name!r} are not to be had on one machine: ask for one.")

    def checks(self, output: str) -> Mapping[str, Look]:
        return local_checks.looks(output, self._environment)

    async def remnants(
        self, output: str, jobs: Sequence[SliceJob], places: Sequence[Place] = ()
    ) -> tuple[Remnant, ...]:
        found = await anyio.to_thread.run_sync(marked_below, open_storage(output).url)
        return tuple(_remnant(marked) for marked in found if marked.mark.rpartition("/")[2].isdecimal())

    async def limits(self, job: SliceJob, offer: Offer, output: str) -> tuple[Ruling, ...]:
        return tuple(limit.ruling for limit in self._limits(job, offer, output))

    def _limits(self, job: SliceJob, offer: Offer, output: str) -> tuple[Limit, ...]:
        shape = resolve(offer.accelerator, dialect=job.dialect)
        most = whole_number(self._environment, Env.MAX_HOSTS, default=DEFAULT_MAX_HOSTS)
        found = local_limits.limits(output, hosts=shape.hosts * job.slices, most_hosts=most)
        return found + ((local_limits.gpus(shape, self._gpus.of_a_slice),) if self._gpus.serve(shape) else ())

    async def provision(self, attempt: Attempt, offer: Offer) -> Held | Waiting | Refused:
        if attempt.output in self._held:
            return self._held[attempt.output]
        short = missing(self._limits(attempt.job, offer, attempt.output))
        if short:
            return Refused(reason=short)
        shape = resolve(offer.accelerator, dialect=attempt.job.dialect)
        if _only_sees_to_others(attempt.job, shape):
            return Held(offer=offer, handle={"slice": NO_SLICE})
        taken = self._slices.take(attempt.job.name)
        if isinstance(taken, str):
            return Waiting(reason=taken, what=WaitFor.TURN)
        tight = missing((local_limits.free_memory(shape.hosts * attempt.job.slices),))
        if tight:  # other programs have it, perhaps not for long
            self._slices.give_back(taken)
            return Waiting(reason=tight, what=WaitFor.TURN)
        self._locks[taken.number] = taken
        held = self._held[attempt.output] = Held(offer=offer, handle={"slice": taken.number})
        return held

    def imagine(self, attempt: Attempt, offer: Offer) -> Held | Refused:
        short = missing(self._limits(attempt.job, offer, attempt.output))
        return Refused(reason=short) if short else Held(offer=offer, handle={"slice": 0})

    def plan(self, attempt: Attempt, held: Held) -> Plan:
        job = attempt.job
        shape = resolve(held.offer.accelerator, dialect=job.dialect)
        gpus = self._gpus.chosen(shape, held.handle["slice"])
        port = free_port(f"{attempt.output}/{attempt.number}/{held.handle['slice']}")
        is_flow = job.program.kind == "flow"
        hosts = HostPlan(
            job=job.name,
            attempt=attempt.number,
            accelerator=held.offer.accelerator,
            output=attempt.output,
            slices=job.slices,
            hosts=shape.hosts * job.slices,
            devices_per_host=shape.devices_per_host,
            platform="cuda" if gpus else "cpu",
            gpus=tuple(gpu.name for gpu in gpus),
            stand_in=stand_in(shape, gpus),
            coordinator=f"127.0.0.1:{port}",
            addresses=("127.0.0.1",) * (shape.hosts * job.slices),
            program=job.program,
            data=job.data,
            start_from=job.start_from,
            mesh=job.mesh,
            env={"JAX_COMPILATION_CACHE_DIR": f"{attempt.output}/{layout.COMPILATION_CACHE}", **job.env},
            restore=attempt.restore,
            checkpoint_every=job.checkpoint_every,
            grace=job.grace,
            orphan_after=job.orphan_after,
            join_timeout=job.join_timeout,
            deadline=job.deadline,
            stall_timeout=job.stall_timeout,
            drills=job.drills,
            profile=job.profile,
            python=sys.executable,
            regions=f"127.0.0.1:{free_port(f'{attempt.output}/{attempt.number}/regions')}" if is_flow else None,
        )
        return Plan(hosts=hosts, commands=tuple(_command(hosts, host) for host in range(hosts.hosts)))

    async def submit(self, plan: HostPlan, held: Held | None) -> Handle:
        """Start a runner for each host that has none; a runner finds out itself where it is one too many."""
        lock = self._locks.get(held.handle["slice"]) if held else None
        for host in range(plan.hosts):
            if not self._has_begun(plan, host):
                self._children[_mark(plan.output, plan.attempt), host] = self._spawn(plan, host, lock)
        return self.attach(plan)

    def attach(self, plan: HostPlan) -> Handle:
        return {"backend": "local", "output": plan.output, "attempt": plan.attempt, "hosts": plan.hosts}

    def _has_begun(self, plan: HostPlan, host: int) -> bool:
        child = self._children.get((_mark(plan.output, plan.attempt), host))
        is_starting = child is not None and child.poll() is None
        return is_starting or LocalStorage(plan.output).path(layout.started(plan.attempt, host)).exists()

    def _spawn(self, plan: HostPlan, host: int, lock: SliceLock | None) -> subprocess.Popen[bytes]:
        storage = LocalStorage(plan.output)
        folder = storage.path(layout.host(plan.attempt, host))
        folder.mkdir(parents=True, exist_ok=True)
        own = {Env.ATTEMPT: _mark(plan.output, plan.attempt), Env.HOST: str(host)}
        if plan.program.kind == "flow":
            own[Env.REGION_KEY] = region_key(storage.root)
        environment = {**self._environment, **_unwritten(storage), **own}
        with storage.path(layout.runner_log(plan.attempt, host)).open("ab") as log, notice_withheld():
            return subprocess.Popen(
                _command(plan, host),
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lock.descriptor,) if lock else (),
            )

    async def observe(self, handle: Handle) -> AsyncGenerator[Observation, None]:
        seen: Observation | None = None
        silent_since = anyio.current_time()
        while True:
            now = self._look(handle)
            if now != seen or anyio.current_time() - silent_since > LONGEST_SILENCE_SECONDS:
                seen, silent_since = now, anyio.current_time()
                yield now
            await anyio.sleep(LOOK_SECONDS)

    def _look(self, handle: Handle) -> Observation:
        return Observation(
            attempt=handle["attempt"], hosts=tuple(self._look_at(handle, host) for host in range(handle["hosts"]))
        )

    def _look_at(self, handle: Handle, host: int) -> HostObservation:
        is_running = self._is_running(handle, host)  # before the record is read: a runner writes it, then ends
        child = self._children.get((_mark(handle["output"], handle["attempt"]), host))
        return view(handle, host, is_running=is_running, code=child.poll() if child else None)

    def _is_running(self, handle: Handle, host: int) -> bool | None:
        """None while the host's runner has not claimed it yet."""
        mark = _mark(handle["output"], handle["attempt"])
        child = self._children.get((mark, host))
        has_ended = child is not None and child.poll() is not None
        pid = runner_of(handle, host)
        if pid is None:
            return False if has_ended else None
        return not has_ended if child is not None and child.pid == pid else is_alive(pid, mark)

    async def logs(
        self, handle: Handle, hosts: tuple[int, ...] | None = None, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[LogLine, None]:
        wanted = range(handle["hosts"]) if hosts is None else hosts
        logs = {host: LocalStorage(handle["output"]).path(layout.log(handle["attempt"], host)) for host in wanted}
        positions = {host: 0 if tail is None else last_lines(path, tail) for host, path in logs.items()}
        while True:
            has_ended = self._look(handle).has_ended  # before reading: what was written until now is then read
            for host, path in logs.items():
                is_more = True
                while is_more:
                    lines, positions[host] = read_lines(path, positions[host], whole=not has_ended)
                    is_more = bool(lines)
                    for text in lines:
                        yield LogLine(host=host, text=text)
            if has_ended or not follow:
                return
            await anyio.sleep(LOOK_SECONDS)

    async def stop(self, handle: Handle) -> None:
        mark = _mark(handle["output"], handle["attempt"])
        for host in range(handle["hosts"]):
            child = self._children.get((mark, host))
            pid = runner_of(handle, host)
            if pid is not None and is_alive(pid, mark):
                with contextlib.suppress(ProcessLookupError):  # it ended since the look
                    os.kill(pid, signal.SIGTERM)
            elif pid is None and child is not None:
                child.terminate()  # it has not claimed its host yet, and hears of it when it does

    async def forget(self, handle: Handle) -> None:
        mark = _mark(handle["output"], handle["attempt"])
        await anyio.to_thread.run_sync(kill_marked, mark)
        for host in range(handle["hosts"]):
            child = self._children.pop((mark, host), None)
            if child is not None:
                child.wait()

    async def release(self, held: Held) -> None:
        lock = self._locks.pop(held.handle["slice"], None)
        if lock is not None:
            self._held = {output: other for output, other in self._held.items() if other.handle != held.handle}
            self._slices.give_back(lock)

    async def tidy(self, job: SliceJob, plan: HostPlan) -> bool:
        return True

    async def withdraw(self, job: SliceJob, output: str) -> None:
        """Nothing is kept of a slice that was not free."""


def _only_sees_to_others(job: SliceJob, shape: Slice) -> bool:
    """A flow on a host without chips: it may ask for a slice itself, and would wait for its own end."""
    return job.program.kind == "flow" and shape.platform == "cpu" and shape.hosts * job.slices == 1


def _remnant(marked: Marked) -> Remnant:
    output, _, number = marked.mark.rpartition("/")
    return Remnant(
        output=output,
        attempt=int(number),
        what=f"{len(marked.pids)} process{'es' if len(marked.pids) > 1 else ''}",
        age=time.time() - marked.since,
        handle={"backend": "local", "output": output, "attempt": int(number), "hosts": 0},
    )


def _command(plan: HostPlan, host: int) -> tuple[str, ...]:
    path = LocalStorage(plan.output).path(layout.plan(plan.attempt))
    return (plan.python, "-P", "-m", "prefect_tpu.infra.host", str(path), str(host))


def _unwritten(storage: LocalStorage) -> dict[str, str]:
    """Variables of a job that stand in none of its files but one, which only its owner can read."""
    raw = storage.get(layout.SECRETS)
    with contract.reading(layout.SECRETS):
        return {} if raw is None else dict(contract.read_json(raw, layout.SECRETS)["environment"])


def _mark(output: str, attempt: int) -> str:
    return f"{output}/{attempt}"
