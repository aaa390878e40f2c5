"""A PostgreSQL of the tests' own: where its programs are found, and how it runs for as long as it is wanted.

It takes this machine's programs where they are new enough for Prefect, else those that the wheel `pgserver` carries.
Its data lie in a temporary folder and it listens on a free port of the loopback.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prefect_server import wait_for
from serving import end_with_the_tests

LEAST = (14, 9)  # that Prefect's own pages ask for
USER = "prefect"
# PostgreSQL runs as nobody's root. In a user namespace root is `nobody` to it, and its files stay root's for us.
NOT_ROOT = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
DATABASE = "postgresql+asyncpg://{user}@127.0.0.1:{port}/postgres"
# Data that is thrown away need not outlive a power cut, and a test's server has few clients.
IN_A_HURRY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}
PATIENCE = 120.0


class NoPostgres(Exception):
    """There is none on this machine; the message says how to get it."""


@contextmanager
def running_postgres(folder: Path) -> Iterator[str]:
    """Its URL, as Prefect writes one; its processes and data are gone afterwards."""
    programs, data = find_programs(), folder / "postgres"
    _say(programs / "initdb", "-D", data, "-U", USER, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    settings = {**IN_A_HURRY, "port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    with (folder / "postgres.log").open("wb") as log:
        server = subprocess.Popen(
            [*_not_root(), programs / "postgres", "-D", data, *words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", preexec_fn=end_with_the_tests,
        )  # fmt: skip
    try:
        asked = [programs / "pg_isready", "--quiet", "--host=127.0.0.1", f"--port={port}"]
        wait_for(lambda: server.poll() is not None or subprocess.run(asked).returncode == 0, "PostgreSQL")
        assert server.poll() is None, (folder / "postgres.log").read_text()
        yield DATABASE.format(user=USER, port=port)
    finally:
        server.send_signal(signal.SIGQUIT)  # its children end with it, whoever is connected
        server.wait(PATIENCE)
        shutil.rmtree(data, ignore_errors=True)


def find_programs() -> Path:
    """The folder of `initdb` and `pg_ctl`.

    Raises:
        NoPostgres: There is none that is new enough.
    """
    seen = [place for place in _places() if (place / "initdb").exists()]
    for place in seen:
        if _version(place) >= LEAST:
            return place
    raise NoPostgres(
        f"These tests need PostgreSQL {'.'.join(map(str, LEAST))} or newer, which is not on this machine"
        f" ({', '.join(map(str, seen)) or 'none was found'}): `make setup` brings one along for Python 3.12 and older;"
        " for others `apt-get install postgresql`, or put the folder of `initdb` into PATH."
    )


def _say(*words: str | Path) -> None:
    """Run one of its programs to its end."""
    done = subprocess.run([*_not_root(), *words], capture_output=True, text=True, timeout=PATIENCE, cwd="/")
    assert done.returncode == 0, f"{words[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"


def _not_root() -> tuple[str, ...]:
    return NOT_ROOT if os.geteuid() == 0 else ()


def _places() -> Iterator[Path]:
    found = shutil.which("initdb")
    if found:
        yield Path(found).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_number, reverse=True)
    wheel = importlib.util.find_spec("pgserver")
    for place in (wheel and wheel.submodule_search_locations) or ():
        yield Path(place, "pginstall", "bin")


def _number(place: Path) -> float:
    return float(place.parent.name)


def _version(place: Path) -> tuple[int, ...]:
    told = subprocess.run([place / "initdb", "--version"], capture_output=True, text=True).stdout
    found = re.search(r"(\d+)\.(\d+)", told)
    return tuple(map(int, found.groups())) if found else (0,)
