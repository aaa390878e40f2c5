"""What becomes of the processes that a program leaves behind? They become the runner's, and end with it.

A child that made itself a daemon is in no group of the program's any more, and an emptied environment takes its mark
away; its parent is all that cannot be changed. Linux only: elsewhere the group and the mark must do.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

_SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, prctl(2)
PATIENCE = 5.0  # seconds for killed processes to be gone: one in an uninterruptible read ends only after it
LOOK_SECONDS = 0.01


def adopt() -> None:
    """From now on whoever loses a parent below this process becomes its child."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def bury(program: int) -> None:
    """Let adopted children that have ended go; the program's own end is left to whoever waits for it."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(ChildProcessError):
        while (dead := _dead_child()) is not None and dead != program:
            os.waitpid(dead, 0)


def end() -> None:
    """Kill all children of this process, and theirs as they become its own, until there are none."""
    give_up = time.monotonic() + PATIENCE
    while (children := _children()) and time.monotonic() < give_up:
        for pid in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(LOOK_SECONDS)


def _dead_child() -> int | None:
    seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return None if seen is None else seen.si_pid


def _children() -> list[int]:
    own = str(os.getpid())
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _parent(path) == own]


def _parent(folder: Path) -> str | None:
    """The fourth word of `stat`; the second, a name in brackets, may hold anything."""
    try:
        return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
    except (OSError, IndexError):  # it has ended
        return None
