"""The empty SQLite database of a Prefect server, made once for a machine: all migrations take ten seconds of a core."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

UPGRADE = (sys.executable, "-P", "-m", "prefect", "server", "database", "upgrade", "--yes")
SECONDS = 300


def lay_tables(database: Path) -> None:
    """Where a server begins with them, unless it has some already."""
    if database.exists():
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.gettempdir()) / f"prefect-{importlib.metadata.version('prefect')}-{os.getuid()}.db"
    if not made.exists():
        _make(made)
    _copy(made, database)


def _make(made: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="prefect-tables-") as home:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        done = subprocess.run(
            UPGRADE, env={**environment, "PREFECT_HOME": home}, capture_output=True, text=True, timeout=SECONDS
        )
        assert done.returncode == 0, done.stdout + done.stderr
        whole = Path(home, "whole.db")
        _copy(Path(home, "prefect.db"), whole)
        os.replace(_beside(whole, made), made)  # another process may make it at the same time


def _beside(file: Path, made: Path) -> Path:
    """A copy on the same disk, under a name of this process."""
    copy = made.with_suffix(f".{os.getpid()}")
    copy.write_bytes(file.read_bytes())
    return copy


def _copy(source: Path, target: Path) -> None:
    """With what SQLite has in a file of its own beside it."""
    with contextlib.closing(sqlite3.connect(source)) as one, contextlib.closing(sqlite3.connect(target)) as other:
        one.backup(other)
