"""What does a silent program do? By the stacks that its processes write when they are asked.

`faulthandler` writes them, also where Python itself stands still: the text below is its.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from prefect_tpu.infra.contract import STACKS_SIGNAL, Activity, Scratch

_FRAME = re.compile(r'  File "(?P<path>.+)", line (?P<line>\d+|\?\?\?) in (?P<name>.+)')
_THREAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+.*:")
_PROCESS = "Process {pid}:"

# Where a program may be for long without a step. Tried with jax 0.10 and 0.12 and orbax 0.12.
_COMPILING = ("/jax/_src/compiler.py", "/jax/_src/interpreters/mlir.py")
_SAVING = ("/orbax/checkpoint/", "/infra/training/store.py")
_WAITING = ("/jax/_src/", "/jax/experimental/", "/jaxlib/", "/orbax/checkpoint/", "/infra/training/")
# What is not the program's own: installed packages, Python's library, frozen modules, and this package.
_FOREIGN = re.compile(r"/site-packages/|/dist-packages/|/lib/python3\.\d+t?/|^<frozen ")
_OURS = str(Path(__file__).parents[1]) + os.sep


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One call: the file's path, the line as it was written, and the function's name."""

    path: str
    line: str
    name: str

    @property
    def is_own(self) -> bool:
        """Whether it belongs to the program rather than to what it uses."""
        return not _FOREIGN.search(self.path) and not self.path.startswith(_OURS)

    def __str__(self) -> str:
        return f"{Path(self.path).name}:{self.line} in {self.name}"


def activity(dump: str) -> Activity:
    """What any thread of it is at that may take long."""
    paths = [frame["path"] for frame in _FRAME.finditer(dump)]
    if any(path.endswith(_COMPILING) for path in paths):
        return Activity.COMPILING
    if any(sign in path for path in paths for sign in _SAVING):
        return Activity.SAVING
    return Activity.UNKNOWN


def where(dump: str) -> str:
    """The innermost frame of the main thread that is the program's own, else its innermost; empty without stacks."""
    frames = _main_frames(dump)
    return str(next((frame for frame in frames if frame.is_own), frames[0])) if frames else ""


def is_waiting(dump: str) -> bool:
    """Whether the main thread stands where a host waits for others, and not in code of the program's own."""
    innermost = next((frame.path for frame in _main_frames(dump)), "")
    return any(sign in innermost for sign in _WAITING)


def traceback(dump: str) -> str:
    """The main thread's stack as Python shows one, the innermost call last; empty without stacks."""
    frames = [f'  File "{frame.path}", line {frame.line}, in {frame.name}' for frame in reversed(_main_frames(dump))]
    return "\n".join(["Stack of the main thread (most recent call last):", *frames]) if frames else ""


def _main_frames(dump: str) -> list[Frame]:
    """Of the first process's main thread, the innermost first.

    A process's signal goes to its main thread where that can take it; otherwise the last one is the oldest.
    """
    _, *threads = _split(dump.split("\nProcess ", maxsplit=1)[0])
    current = [thread for thread in threads if thread.startswith("Current thread")]
    chosen = (current or threads or [""])[-1]
    return [Frame(**found.groupdict()) for found in _FRAME.finditer(chosen)]


def _split(dump: str) -> list[str]:
    starts = [found.start() for found in _THREAD.finditer(dump)]
    return [dump[a:b] for a, b in zip([0, *starts], [*starts, len(dump)], strict=True)]


class Stacks:
    """Asks the processes of one group that have said they can answer, and reads what they wrote."""

    def __init__(self, scratch: Path, group: int) -> None:
        self._scratch, self._group = scratch, group

    def ask(self) -> None:
        """Each writes its stacks within moments; what it wrote before is gone."""
        for pid, path in self._files():
            try:
                if os.getpgid(pid) == self._group and _can_hear(pid):
                    os.truncate(path, 0)
                    os.kill(pid, STACKS_SIGNAL)
            except ProcessLookupError:  # it has ended
                path.unlink(missing_ok=True)
            except (OSError, OverflowError):  # the program may write there whatever it likes: nobody answers then
                continue

    def read(self) -> str:
        """The stacks of all that answered, the program's own process first; empty where none did."""
        texts = [(pid, _text(path).strip()) for pid, path in self._files()]
        return "\n".join(f"{_PROCESS.format(pid=pid)}\n{text}\n" for pid, text in texts if text)

    def _files(self) -> list[tuple[int, Path]]:
        before, after = Scratch.STACKS.split("{pid}")
        names = (path.name[len(before) : -len(after)] for path in self._scratch.glob(f"{before}*{after}"))
        pids = sorted(map(int, filter(str.isdecimal, names)), key=lambda pid: (pid != self._group, pid))
        return [(pid, self._scratch / Scratch.STACKS.format(pid=pid)) for pid in pids]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _can_hear(pid: int) -> bool:
    """Whether the signal is caught: it ends a process that took another program's place since it said so."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # no such file system: its word counts
        return not Path("/proc/self/status").exists()
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (STACKS_SIGNAL - 1) & 1)
