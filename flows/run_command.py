"""`prefect-tpu run`: drive one job from a shell, show how it goes, and leave with its exit code."""

from __future__ import annotations

import json
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from prefect_tpu.flows.progress import show_end, showing
from prefect_tpu.flows.streams import answer
from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import PrefectTpuError, UsageError
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.launcher.driving import Detach, drive_to_end, driving
from prefect_tpu.infra.launcher.history import attempt_numbers, is_stop_asked
from prefect_tpu.infra.request import Request, default_output, job_folder, prepare
from prefect_tpu.infra.storage import LocalStorage
from prefect_tpu.infra.summary import draw_loss

HEED_AFTER_SECONDS = 1.5  # a second interrupt within this time finds hosts that have not been told to leave
SUCCEEDED, FAILED, WRONG_CALL, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The command line of `run`, parsed."""

    target: str
    accelerators: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    name: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    output: str | None = None
    checkpoint_every: float = 600.0
    drills: tuple[str, ...] = ()

    def request(self) -> Request:
        return Request(
            name=self.name or f"t-{secrets.token_hex(6)}",
            program=self.target,
            accelerators=self.accelerators,
            output=self.output or default_output(),
            params=self.params,
            arguments=self.arguments,
            data=self.data,
            settings={"checkpoint_every": self.checkpoint_every, "drills": self.drills},
        )


class Interrupts:
    """What the terminal's interrupts mean: the first stops the job, the second leaves it running."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._heed_at = 0.0

    def asks_to_stop(self) -> str | None:
        return self.reason if time.monotonic() >= self._heed_at else None

    @contextmanager
    def caught(self) -> Iterator[None]:
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        signal.signal(signal.SIGINT, self._interrupt)
        signal.signal(signal.SIGTERM, _terminate)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.reason is not None:
            raise Detach
        self._heed_at = time.monotonic() + HEED_AFTER_SECONDS
        self.reason = "interrupted at the terminal"
        sys.stderr.write("\nStopping: the hosts save and leave. Interrupt again to leave the job running.\n")


def _terminate(number: int, frame: FrameType | None) -> None:
    """The hosts save and leave; the job keeps no end, so running it again goes on."""
    sys.exit(TERMINATED)


def carry_out(wish: Wish, *, as_json: bool) -> int:
    """Run the job to its end. Returns the exit status."""
    interrupts = Interrupts()
    try:
        request = wish.request()
        with interrupts.caught():
            result = _drive(request, interrupts)
    except Detach:
        sys.stderr.write(_how_to_go_on(request))
        return INTERRUPTED
    except PrefectTpuError as exc:
        if not as_json:
            raise
        answer(json.dumps({"error": str(exc)}), advice=str(exc))
        return WRONG_CALL if isinstance(exc, UsageError) else FAILED
    _show(result, as_json=as_json)
    if interrupts.reason is not None and result.state == "stopped":
        return INTERRUPTED
    return SUCCEEDED if result.state == "succeeded" else FAILED


def _drive(request: Request, interrupts: Interrupts) -> JobResult:
    with showing(request.name, request.params.get("steps")) as display:
        job = prepare(request, display.copied)
        folder = job_folder(request.output, job.name)
        with driving(job, folder, display.heard, interrupts.asks_to_stop) as driven:
            return drive_to_end(driven)


def _show(result: JobResult, *, as_json: bool) -> None:
    picture = draw_loss(result)
    show_end(result, picture)
    if as_json:
        kept = f"{result.output}/{layout.RESULT}"
        answer(json.dumps(result.to_json()), advice=f"It is kept in {kept}; run the same command to see it again.")


def _how_to_go_on(request: Request) -> str:
    folder = job_folder(request.output, request.name)
    again = f"run the same command with --name {request.name}"
    if not attempt_numbers(LocalStorage(folder)):
        return f"Job {request.name!r} had not begun: nothing of it runs.\nTo begin it, {again}.\n"
    if is_stop_asked(LocalStorage(folder)):
        return f"Job {request.name!r} in {folder} was told to stop and leaves by itself.\nTo go on later, {again}.\n"
    return (
        f"Job {request.name!r} runs on in {folder}.\n"
        f"To attach, {again}; its hosts save and leave if nobody does within a minute.\n"
    )
