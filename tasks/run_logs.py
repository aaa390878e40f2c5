"""How do the logs of runs read? Of an error of ours there is its sentence; of trials side by side, which one speaks.

By themselves Prefect's engines log the whole way of an error through Prefect and through us, ninety lines in which the
one that helps drowns. Whoever wants all of them has Prefect's logging level DEBUG.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType

from prefect.context import TaskRunContext

from prefect_tpu.infra.errors import PrefectTpuError

LOGGERS = ("prefect.engine", "prefect.flow_runs", "prefect.flows", "prefect.task_runs")
NO_ERROR = (None, None, None)  # what is logged of the error in hand, where there is none
# Whose frames no caller has written; the last three lie between those of the first two.
NOT_THE_CALLERS = frozenset({"prefect", "prefect_tpu", "asyncio", "concurrent", "contextlib"})
_says_it_better: ContextVar[bool] = ContextVar("says_it_better", default=False)
_speaker: ContextVar[str] = ContextVar("speaker", default="")


class Editor(logging.Filter):
    """Shortens what is logged of errors of ours, and begins each line with who speaks; all else is left as it is."""

    def filter(self, record: logging.LogRecord) -> bool:
        is_wanted = self._edit(record)
        if speaker := _speaker.get():
            record.msg, record.args = f"{speaker}: {record.getMessage()}", ()
        return is_wanted

    def _edit(self, record: logging.LogRecord) -> bool:
        if logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
            return True
        if _says_it_better.get() or record.exc_info == NO_ERROR and _is_in_a_task_of_ours():
            return False
        if record.exc_info and isinstance(error := record.exc_info[1], PrefectTpuError):
            _shorten(record, error)
        return True


def edit_logs() -> None:
    """Let all runs of this process log like that. Safe to repeat."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(one, Editor) for one in logger.filters):
            logger.addFilter(Editor())


@contextmanager
def speaking(who: str) -> Iterator[None]:
    """What runs log in this thread meanwhile begins with this name."""
    token = _speaker.set(who)
    try:
        yield
    finally:
        _speaker.reset(token)


@contextmanager
def saying_it_better() -> Iterator[None]:
    """Keep from the log what Prefect says before it raises an error whose message says the same for people."""
    token = _says_it_better.set(True)
    try:
        yield
    finally:
        _says_it_better.reset(token)


def _is_in_a_task_of_ours() -> bool:
    """Its failed state is logged once more, with its message, when the task ends."""
    running = TaskRunContext.get()
    return running is not None and running.task.fn.__module__.startswith("prefect_tpu.")


def _shorten(record: logging.LogRecord, error: PrefectTpuError) -> None:
    """Its sentence first, and last where there is code of the caller between."""
    sentence = f"{type(error).__name__}: {error}"
    frames = _own_frames(error.__traceback__)
    record.msg, record.args, record.exc_info = sentence, (), None
    if frames:
        record.exc_text = f"Traceback (your own code alone):\n{''.join(frames.format())}{sentence}"


def _own_frames(way: TracebackType | None) -> traceback.StackSummary:
    """The steps of the caller's own code on the way to an error."""
    modules = [str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(way)]
    steps = zip(traceback.extract_tb(way), modules, strict=True)
    return traceback.StackSummary.from_list(
        [step for step, module in steps if module.partition(".")[0] not in NOT_THE_CALLERS]
    )
