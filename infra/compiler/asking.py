"""How is the compiler asked? By a process of its own, which may die of it without taking anybody along."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import psutil

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.compiler import fields
from prefect_tpu.infra.compiler.environment import Compiler
from prefect_tpu.infra.compiler.question import Question, Target
from prefect_tpu.infra.compiler.report import Problem, ProblemKind, Verdict
from prefect_tpu.infra.contract import Env

PATIENCE_SECONDS = 1800.0  # for one question: a program may take long to come to its step, and a large step to compile
LEAVING_SECONDS = 10.0  # from the end of its answers to its own
SCRATCH = "prefect-tpu-compile-"  # then the number of the process that asks, and what makes it one
CHILD = "prefect_tpu.infra.compiler.child"
LAST_WORDS = 4000  # characters of the log of a process that died

# libtpu asks no metadata server which machine this is, and more than one process may load it.
_LIBTPU = {"TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}


class Asking:
    """A block in which questions about one program are answered.

    A process answers as long as it can: a program that is run up to its step has the devices of one slice for ever.
    """

    def __init__(self, target: Target, compiler: Compiler, patience: float = PATIENCE_SECONDS) -> None:
        self._target, self._compiler, self._patience = target, compiler, patience
        self._child: _Child | None = None

    def __enter__(self) -> Asking:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, where: TracebackType | None
    ) -> None:
        self._end()

    def ask(self, question: Question) -> Verdict:
        """What the compiler says. A process that dies or is silent for too long is a problem too."""
        if self._child is None or not self._child.can_answer(question):
            self._end()
            self._child = _Child(self._target, self._compiler, question)
        began = time.monotonic()
        line = self._child.ask(question, self._patience)
        if line:
            return self._child.heard(line)
        problem = self._child.last_problem(time.monotonic() - began >= self._patience)
        self._end()
        return _without_answer(question, problem, self._compiler, time.monotonic() - began)

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


class _Child:
    def __init__(self, target: Target, compiler: Compiler, first: Question) -> None:
        self._size = _size(first)
        self._answers_any = False
        _sweep()
        self._scratch = Path(tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-"))
        self._log = self._scratch / "log"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(compiler, os.environ),
                start_new_session=True,  # Ctrl-C is for us, and we end it with all that the program started
            )
        self._tell({"target": target.to_json(), "scratch": str(self._scratch), "versions": compiler.versions})

    def can_answer(self, question: Question) -> bool:
        return self._answers_any or _size(question) == self._size

    def ask(self, question: Question, patience: float) -> bytes:
        """The line of its answer; empty where it died, or its time is over."""
        self._tell(question.to_json())
        return _line(self._process.stdout, patience)

    def heard(self, line: bytes) -> Verdict:
        with fields.reading("An answer"):
            answer = fields.table(json.loads(line))
            self._answers_any, verdict = fields.truth(answer["any_size"]), answer["verdict"]
        return Verdict.from_json(verdict)

    def last_problem(self, is_late: bool) -> Problem:
        how = "took too long and was ended" if is_late else _how(self._process)
        said = self._log.read_bytes()[-LAST_WORDS:].decode(errors="replace").strip()
        return Problem(
            kind=ProblemKind.COMPILER,
            message=f"The compiler's process {how}. Its last words:\n{said}",
            where="",
            advice="Where the words name your program, look there; where they do not, try a smaller step.",
        )

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _tell(self, words: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is dead, and whoever waits for its answer finds out
            self._process.stdin.write(json.dumps(words).encode() + b"\n")
            self._process.stdin.flush()


def _sweep() -> None:
    """Away with the folders of those who were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*-*"):
        owner = folder.name.removeprefix(SCRATCH).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _environment(compiler: Compiler, own: Mapping[str, str]) -> dict[str, str]:
    return {**own, **_LIBTPU, "TPU_LIBRARY_PATH": compiler.library, Env.PARENT: str(os.getpid())}


def _size(question: Question) -> tuple[int, int]:
    return resolve(question.accelerator).jax_devices * question.slices, question.slices


def _line(stream: IO[bytes] | None, patience: float) -> bytes:
    """One line, or nothing where none comes in time."""
    assert stream is not None
    until, found = time.monotonic() + patience, b""
    while not found.endswith(b"\n"):
        ready, _, _ = select.select([stream], [], [], max(0.0, until - time.monotonic()))
        more = os.read(stream.fileno(), 65_536) if ready else b""
        if not more:
            return b""
        found += more
    return found


def _how(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(timeout=LEAVING_SECONDS)
    except subprocess.TimeoutExpired:
        return "closed the stream that its answers go to, which the program did not open, and was ended"
    return f"died by signal {-code}" if code < 0 else f"died with exit code {code}"


def _without_answer(question: Question, problem: Problem, compiler: Compiler, seconds: float) -> Verdict:
    found = resolve(question.accelerator)
    return Verdict(
        accelerator=found.name,
        slices=question.slices,
        chips=found.chips * question.slices,
        devices=found.jax_devices * question.slices,
        hosts=found.hosts * question.slices,
        mesh=(),
        axes=(),
        step=None,
        problem=problem,
        compile_seconds=seconds,
        versions=compiler.versions,
    )
