"""The processes of a control plane: started, waited for, ended; none outlives the one who started them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import urllib3

from control_plane.api import ApiError

PATIENCE = 180.0  # seconds until a program counts as not coming up; a busy machine takes long
LOOK_SECONDS = 0.05
LAST_CHARACTERS = 4000  # of a log, in an error
HARMLESS_TO_KILL = ("etcd", "kube-apiserver")  # they hold nothing, and a polite end of theirs takes seconds


class DidNotStart(Exception):
    """A program of the control plane ended or is not ready in time; the message has the end of its log."""


class Processes:
    """Programs by name, and a log file of each in one folder."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self.folder = programs, folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, arguments: Sequence[str], inside: Sequence[str] = ()) -> None:
        """Start a program; it is killed by the system when the thread that started it is gone.

        `inside` is a command that runs the rest of its words.
        """
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*dies_with_parent(), *inside, str(self._programs / name), *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip

    def until(self, name: str, is_ready: Callable[[], object]) -> None:
        """Wait until a program is ready, as long as all programs live.

        Raises:
            DidNotStart: One of them has ended, or the wait has.
        """
        end, said = time.monotonic() + PATIENCE, "it did not say so"
        while True:
            self.check()
            try:
                if is_ready():
                    return
            except (urllib3.exceptions.HTTPError, ApiError, OSError) as error:
                said = repr(error)
            if time.monotonic() > end:
                raise DidNotStart(f"{name} is not ready after {PATIENCE:.0f} s: {said}\n{self.last_words(name)}")
            time.sleep(LOOK_SECONDS)

    def check(self) -> None:
        """Raises: DidNotStart: one of the programs has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise DidNotStart(f"{name} ended with {process.returncode}:\n{self.last_words(name)}")

    def stop(self) -> None:
        """End all, the last one first: clients before servers."""
        while self._running:
            name, process = self._running.popitem()
            process.send_signal(signal.SIGKILL if name in HARMLESS_TO_KILL else signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def ids(self) -> dict[str, int]:
        """Name → process id of what was started."""
        return {name: process.pid for name, process in self._running.items()}

    def log(self, name: str) -> Path:
        """Where a program writes."""
        return self.folder / f"{name}.log"

    def last_words(self, name: str) -> str:
        """The end of a program's log, and where the whole of it lies."""
        path = self.log(name)
        text = path.read_text("utf-8", "replace") if path.exists() else ""
        return f"{text[-LAST_CHARACTERS:].rstrip()}\n(its log: {path})"


def dies_with_parent() -> list[str]:
    """What a command begins with whose process the system kills together with its parent."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


def with_files(files: Path, place: Path, scratch: Path) -> list[str]:
    """What a command begins with that sees the files of a folder at a place which this machine need not have.

    The machine itself is not changed: the command has a mount namespace, for root or by a user namespace.
    """
    top = Path(*place.parts[:2])
    layers = f"lowerdir={top},upperdir=$1/upper,workdir=$1/work"
    steps = (
        'mkdir -p "$1/upper" "$1/work"',
        f'mount -t overlay overlay -o "{layers}" {top}',
        f'mkdir -p {place} && cp "$2"/* {place} && shift 2 && exec "$@"',
    )
    as_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    new = ["unshare", *as_user, "--mount", "--propagation", "private"]
    return [*new, "/bin/sh", "-c", " && ".join(steps), "sh", str(scratch), str(files)]


def free_ports(names: Sequence[str]) -> dict[str, int]:
    """A free port of the loopback for each name; held together, so that none is given twice."""
    sockets = [socket.socket() for _ in names]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return {name: one.getsockname()[1] for name, one in zip(names, sockets, strict=True)}
    finally:
        for one in sockets:
            one.close()


def quick_folder() -> Path | None:
    """Where short-lived files are written without a disk; None where there is no such place."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else None
