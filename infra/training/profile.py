"""What does the program do in its steps? Recorded in a window of them, on all hosts, and brought to one place."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from prefect_tpu.infra.contract import Env, Event
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.storage import open_on_host
from prefect_tpu.infra.training.context import Context, context
from prefect_tpu.infra.training.info import info
from prefect_tpu.infra.training.profilers import Profiler, profiler
from prefect_tpu.infra.windows import Window, parse_window

OUTSIDE = "run"  # what a recording outside a job is called; the next one takes its place
_FAILURES = (PlatformError, OSError, RuntimeError, ValueError)  # of storage, of the disk and of a profiler


class Recorder:
    """Driven by reports: it begins with one, and ends with one or with the program.

    A training does not end because its profile cannot be had: standard error says why.
    """

    def __init__(self, window: Window, output: str, run: str, tell: Callable[..., None], near: Path | None) -> None:
        self._window, self._output, self._run, self._tell, self._near = window, output, run, tell, near
        self._seen = 0
        self._first: int | None = None  # the step with which the recording began
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._profiler: Profiler | None = None

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to record."""
        return self._seen >= self._window.skip + self._window.steps

    def reported(self, step: int, wait: Callable[[], None]) -> None:
        """A step is done; `wait` returns when the chips have done it too. What that raises is the program's."""
        self._seen += 1
        begins, ends = self._seen == self._window.skip, self.is_over and self._folder is not None
        if begins or ends:
            wait()  # what is recorded begins with the next step, and ends with this one
        with self._surviving():
            if self._profiler is not None:
                self._profiler.name_step(None)
            if begins:
                self._begin(step + 1)
            if ends:
                self._keep(step)
            elif self._profiler is not None:
                self._profiler.name_step(step + 1)

    def end(self, step: int) -> None:
        """The program ends: what was recorded is kept, though it is less than was asked for."""
        if self._profiler is not None:
            with self._surviving():
                self._profiler.name_step(None)
                self._keep(step)
        elif self._seen < self._window.skip:
            self._say_none(self._ended_before())

    def _ended_before(self) -> str:
        if self._seen == 0:
            return "its program reported no step: call prefect_tpu.report(step) after each."
        return (
            f"its program ended with report {self._seen}, and {self._window} records what follows report"
            f" {self._window.skip}: use a smaller skip."
        )

    def _begin(self, step: int) -> None:
        chosen = profiler()
        self._folder = tempfile.TemporaryDirectory(dir=self._near, prefix="profile-", ignore_cleanup_errors=True)
        chosen.start(Path(self._folder.name))
        self._profiler, self._first = chosen, step

    def _keep(self, last: int) -> None:
        """Stop, and bring the recording to where all hosts' lie."""
        (folder, self._folder), (chosen, self._profiler) = (self._folder, None), (self._profiler, None)
        if folder is None or chosen is None:
            return
        with folder:
            file = chosen.stop(Path(folder.name))
            if self._seen == self._window.skip:
                raise RuntimeError(self._ended_before())
            name, storage = chosen.place(self._run), open_on_host(self._output)
            storage.put_file(name, file)
        self._tell(Event.PROFILED, first=self._first, last=last, name=name)
        if chosen.host == 0:
            advice = chosen.advice(storage)
            sys.stderr.write(f"prefect-tpu: steps {self._first} to {last} are recorded: {advice}\n")

    @contextlib.contextmanager
    def _surviving(self) -> Iterator[None]:
        try:
            yield
        except _FAILURES as exc:
            if self._folder is not None:
                self._folder.cleanup()
            self._seen, self._folder, self._profiler = self._window.skip + self._window.steps, None, None
            self._say_none(exc)

    def _say_none(self, why: object) -> None:
        sys.stderr.write(f"prefect-tpu: no profile is recorded on this host: {why}\n")


def recorder(tell: Callable[..., None]) -> Recorder | None:
    """Of this process; None where nobody asked for a profile. Raises `UsageError` for a window that is none."""
    here = context()
    text = (here.plan.profile if here is not None else "") or os.environ.get(Env.PROFILE, "")
    if not text:
        return None
    output = here.plan.output if here is not None else str(info().output)
    return Recorder(parse_window(text), output, _run(here), tell, here.scratch if here is not None else None)


def _run(here: Context | None) -> str:
    """The same on all hosts, and another one for each attempt and each region."""
    if here is None:
        return OUTSIDE
    return f"attempt-{here.plan.attempt}" + (f"-{here.plan.region}" if here.plan.region else "")
