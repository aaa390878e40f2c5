"""What does a user's script say while it runs? Its lines as they come, each taken apart, and kept for whoever waits."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prefect_server import kill_tree

_LOGGED = re.compile(r"\d\d:\d\d:\d\d\.\d+ \| (\w+) +\| (?:Task run|Flow run) '([^']+)' - (.*)")
_LOOK_SECONDS = 0.2
_LAST_WORDS_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """task: the Prefect task run that said it, `train` for the flow itself; empty for what is no line of a log."""

    text: str
    task: str = ""
    level: str = "INFO"


def read(text: str) -> Line:
    """A line of the script's output."""
    found = _LOGGED.match(text)
    if not found:
        return Line(text=text)
    is_task = re.match(r"(stage|check|provision|launch|collect|release)_", found[2])
    return Line(text=found[3], task=found[2] if is_task else "train", level=found[1])


class Script:
    """Enter it to start it; what is left of it at the end is killed. tell: hears each line as it comes."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], tell: Callable[[Line], None]) -> None:
        self._command, self._environment, self._tell = command, dict(environment), tell
        self.lines: list[Line] = []

    def __enter__(self) -> Script:
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, name="script", daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        kill_tree(self._process)
        self._reader.join(_LAST_WORDS_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            line = read(text.rstrip("\n"))
            self.lines.append(line)
            self._tell(line)

    def kill(self) -> None:
        """Without a word: it has no time to tell anybody."""
        os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def said(self, task: str, words: str) -> Line | None:
        """The first line of a task that has these words."""
        return next((line for line in self.lines if line.task == task and words in line.text), None)

    def wait(self, seconds: float) -> int:
        """Its exit status; every line of it is here then."""
        status = self._process.wait(seconds)
        self._reader.join(seconds)
        return status

    def until(self, look: Callable[[], Any], what: str, seconds: float) -> Any:
        """What `look` finds once it finds something; the script must live as long."""
        end = time.monotonic() + seconds
        while not (found := look()):
            assert not self.is_over or look(), f"the script ended before {what} came:\n{self.told()}"
            assert time.monotonic() < end, f"{what} did not come within {seconds:.0f} s:\n{self.told()}"
            time.sleep(_LOOK_SECONDS)
        return found

    def told(self) -> str:
        return "\n".join(f"{line.task:22} {line.text}" for line in self.lines)

    def result(self) -> dict[str, Any]:
        """What it printed last: a job's result."""
        found = json.loads(next(line.text for line in reversed(self.lines) if line.text.startswith("{")))
        assert isinstance(found, dict)
        return found
