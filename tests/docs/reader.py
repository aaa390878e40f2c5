"""A reader who follows a page: an empty home, a copy of the clone's pages, one shell and one Python session."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
from page_blocks import Block, Command, commands, is_shown

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
IN_CLONE = ("docs", "deployments", "pyproject.toml", "Makefile")  # what pages speak of
SECONDS_A_COMMAND = 280.0
SECONDS_TO_LEAVE = 20.0
LOOK_SECONDS = 0.1
_AROUND = """set -euo pipefail
[ ! -f {state} ] || source {state}
{text}
export -p > {state}
"""


def page_id(page: Path) -> str:
    """The page as the clone names it."""
    return str(page.relative_to(ROOT))


class Reader:
    """Tries blocks in their order in one folder; `with` ends whatever they leave."""

    def __init__(self, folder: Path, python: Path = Path(sys.executable)) -> None:
        self.home, self.folder, self._notes = folder / "home", folder / "clone", folder / "notes"
        for new in (self.home, self.folder, self._notes):
            new.mkdir()
        for name in IN_CLONE:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, self.folder / name)
        (self.folder / ".venv").symlink_to(python.parents[1])
        self.environment = _environment(self.home, python.parent)
        self._tried = 0
        self._beside: list[subprocess.Popen[bytes]] = []
        self._session: subprocess.Popen[str] | None = None
        self._answers: int | None = None

    def follow(self, block: Block) -> str:
        """Do what a block says. Returns "" where it went as the page promises, else what happened."""
        if "skip" in block.words or "given" in block.words:
            return ""
        if "file" in block.words:
            self._write(block)
            return ""
        self._tried += 1
        if "background" in block.words:
            return self._begin(block)
        how = {"python": self._python, "sh": self._shell, "console": self._console}.get(block.language)
        return how(block) if how is not None else ""

    def _write(self, block: Block) -> None:
        place = self.folder / block.words["file"]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(block.text)

    def _begin(self, block: Block) -> str:
        """Start what goes on until the page ends, and wait for what the page shows of it."""
        (command,) = commands(block.text) if block.language == "console" else [Command(text=block.text, output="")]
        script = self._notes / f"{block.words['background']}.sh"
        script.write_text(command.text)
        with script.with_suffix(".log").open("wb") as log:
            begun = subprocess.Popen(
                ["bash", script], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._beside.append(begun)
        return _until_shown(command, script.with_suffix(".log"), begun) if command.output else ""

    def _shell(self, block: Block) -> str:
        status, printed = self._bash(block.text)
        wanted = int(block.words.get("status", 0))
        return "" if status == wanted else f"ended with status {status} instead of {wanted}:\n{printed}"

    def _console(self, block: Block) -> str:
        given = commands(block.text)
        for command in given:
            status, printed = self._bash(command.text)
            wanted = int(block.words.get("status", 0)) if command is given[-1] else 0
            if status != wanted:
                return f"{command.text}\nended with status {status} instead of {wanted}:\n{printed}"
            if not is_shown(command.output, printed):
                return f"{command.text}\nprinted:\n{printed}\ninstead of:\n{command.output}"
        return ""

    def _bash(self, text: str) -> tuple[int, str]:
        """(status, what it printed); exported variables live on in the next one."""
        script = self._notes / f"{self._tried}.sh"
        script.write_text(_AROUND.format(state=self._notes / "exports", text=text))
        done = subprocess.run(
            ["bash", script], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_A_COMMAND,
        )  # fmt: skip
        return done.returncode, done.stdout

    def _python(self, block: Block) -> str:
        if self._session is None:
            self._start_session(block.words.get("session", "plain"))
        path = self._notes / f"block_{self._tried}.py"
        path.write_text(block.text)
        assert self._session is not None and self._session.stdin is not None and self._answers is not None
        self._session.stdin.write(f"{path}\n")
        self._session.stdin.flush()
        with os.fdopen(os.dup(self._answers)) as answers:
            answer = answers.readline() or '"the session\'s own end"'
        raised, wanted = json.loads(answer), block.words.get("raises")
        printed = (self._notes / "session.log").read_text()
        return "" if raised == wanted else f"ended with {raised} instead of {wanted}:\n{printed}"

    def _start_session(self, kind: str) -> None:
        self._answers, write = os.pipe()
        with (self._notes / "session.log").open("wb") as log:
            self._session = subprocess.Popen(
                [sys.executable, "-P", Path(__file__).with_name("session.py"), str(write), kind], cwd=self.folder,
                env=self.environment, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True, pass_fds=[write],
            )  # fmt: skip
        os.close(write)

    def left(self) -> list[psutil.Process]:
        """Processes that came from this page: they have its home."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            lives = process.status() != psutil.STATUS_ZOMBIE
            return lives and process.environ().get("HOME") == str(self.home)
        return False

    def close(self) -> None:
        """Leave the page as a reader does: end what goes on beside it, and the Python session."""
        for begun in self._beside:
            family = psutil.Process(begun.pid).children(recursive=True)
            for process in [*family, begun]:
                process.terminate()
            _, stubborn = psutil.wait_procs(family, timeout=SECONDS_TO_LEAVE)
            for process in stubborn:  # a Prefect worker sometimes waits for itself
                process.kill()
            begun.wait(SECONDS_A_COMMAND)
        if self._session is not None and self._session.stdin is not None:
            self._session.stdin.close()
            self._session.wait(SECONDS_A_COMMAND)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        while left := self.left():
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(left, timeout=1)
        if self._session is not None:
            self._session.wait()
        if self._answers is not None:
            os.close(self._answers)


def _until_shown(command: Command, log: Path, begun: subprocess.Popen[bytes]) -> str:
    """What happened instead; "" once it has printed what its page shows."""
    give_up = time.monotonic() + SECONDS_A_COMMAND
    while not is_shown(command.output, printed := log.read_text()):
        if begun.poll() is not None or time.monotonic() > give_up:
            return f"{command.text}\nprinted:\n{printed}\ninstead of:\n{command.output}"
        time.sleep(LOOK_SECONDS)
    return ""


def _environment(home: Path, commands: Path) -> dict[str, str]:
    """A terminal of the reader's: nothing of the tests' but the quiet of Prefect and the CPU for JAX."""
    ours = ("PREFECT_", "XDG_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {
        **kept,
        "HOME": str(home),
        "PATH": f"{commands}{os.pathsep}{kept.get('PATH', os.defpath)}",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "COLUMNS": "120",
        "TERM": "dumb",
    }
