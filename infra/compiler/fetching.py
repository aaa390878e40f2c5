"""How does Google's TPU compiler come onto this machine? Fetched once, by one process at a time, and kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import PlatformError

READY = "ready"  # in an environment, once all of it is there
LAST_WORDS = 2000  # characters of what an installer says at its end
PATIENCE_SECONDS = 3600.0  # for each command that makes it, and for another process that does: a line may be slow
LOOK_SECONDS = 0.2  # between two looks whether that one is done


def is_ready(folder: Path) -> bool:
    """Whether all of it is there."""
    return os.path.exists(folder / READY)


def make_once(folder: Path, jax: str, say: Callable[[str], None], patience: float) -> None:
    """Fetch the compiler for a JAX into an environment of its own, unless it is there or another process does so.

    Args:
        folder: of the environment.
        jax: its version.
        say: is told of that before, and of the other process, which is waited for.
        patience: seconds for each command that makes it, and for that process.

    Raises `PlatformError` with what to do; then nothing is left of it.
    """
    with _locked(folder, say, patience) as lock:
        if is_ready(folder):
            return
        say(
            f"Google's TPU compiler is fetched into {folder}: 700 MB, some minutes, once for jax {jax} on this machine."
        )
        try:
            _make(folder, jax, _Commands(folder=folder, patience=patience, lock=lock.fileno()))
        finally:
            if not is_ready(folder):
                shutil.rmtree(folder, ignore_errors=True)  # half of it helps nobody, least of all on a full disk


@contextmanager
def _locked(folder: Path, say: Callable[[str], None], patience: float) -> Iterator[IO[str]]:
    """One process at a time makes it; one that is killed leaves no lock, and what it had is made anew."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = open(folder.with_name(f"{folder.name}.lock"), "w")  # noqa: SIM115
    except OSError as exc:
        raise _cannot_be_written(folder, exc) from exc
    with lock:
        _take(lock, folder, say, patience)
        yield lock


def _take(lock: IO[str], folder: Path, say: Callable[[str], None], patience: float) -> None:
    """Raises `PlatformError` where it is not to be had in time."""
    if _is_taken(lock, folder):
        return
    say(f"Another process fetches Google's TPU compiler into {folder}: it is waited for.")
    until = time.monotonic() + patience
    while not _is_taken(lock, folder):
        if time.monotonic() > until:
            raise PlatformError(
                f"Another process has been making the compiler's environment {folder} for more than {patience:.0f} s:"
                f" look at it (`fuser {lock.name}`), end it where it hangs, and run this again."
            )
        time.sleep(LOOK_SECONDS)


def _is_taken(lock: IO[str], folder: Path) -> bool:
    """Whether the lock is ours now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as exc:
        raise _cannot_be_written(folder, exc) from exc
    return True


def _cannot_be_written(folder: Path, exc: OSError) -> PlatformError:
    return PlatformError(
        f"The compiler's folder {folder.parent} cannot be made or written: {exc.strerror}. Set XDG_CACHE_HOME to"
        f" another, or name the interpreter of an environment that has jax[tpu] as {Env.COMPILER_PYTHON}."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commands:
    """What makes an environment, one command after the other.

    patience: seconds for each.
    lock: held by them too: where this process is killed they go on, and nobody else begins meanwhile.
    """

    folder: Path
    patience: float
    lock: int

    def run(self, *command: str) -> None:
        """Raises `PlatformError` with what the command says."""
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=self.patience, pass_fds=(self.lock,)
            )
        except subprocess.TimeoutExpired as exc:
            raise self._failed(command, f"took more than {self.patience:.0f} s and was ended") from exc
        except OSError as exc:
            raise self._failed(command, f"cannot be run: {exc.strerror}") from exc
        if done.returncode:
            said = (done.stderr or done.stdout).decode(errors="replace").strip()[-LAST_WORDS:]
            raise self._failed(command, f"ended with {done.returncode}", said)

    def _failed(self, command: Sequence[str], how: str, said: str = "") -> PlatformError:
        return PlatformError(
            f"The compiler's environment {self.folder} cannot be made: {' '.join(command)} {how}. Look at what it says"
            f" and at the space on that disk (XDG_CACHE_HOME names another), and run this again; or make one yourself"
            f" and name its interpreter as {Env.COMPILER_PYTHON}.\n{said}".rstrip()
        )


def _make(folder: Path, jax: str, commands: _Commands) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    commands.run(sys.executable, "-m", "venv", str(folder))
    install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"jax[tpu]=={jax}")
    commands.run(str(folder / "bin" / "python"), *install)
    try:
        (folder / READY).touch()
    except OSError as exc:
        raise _cannot_be_written(folder, exc) from exc
