"""A real Prefect server of these tests: how it is started, and what it is asked."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
from prefect_tables import lay_tables
from serving import end_with_the_tests

PATIENCE = 180.0  # seconds until what was waited for counts as missing; a busy machine takes long
LOOK_SECONDS = 0.1
PREFECT = (sys.executable, "-P", "-m", "prefect")
T = TypeVar("T")


def wait_for(look: Callable[[], T | None], what: str, patience: float = PATIENCE, pause: float = LOOK_SECONDS) -> T:
    """The first answer that is something. pause: between two looks."""
    end = time.monotonic() + patience
    while not (found := look()):
        assert time.monotonic() < end, f"{what} did not come within {patience:.0f} s"
        time.sleep(pause)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server, and the environment in which commands find it."""

    client: httpx.Client
    folder: Path
    environment: Mapping[str, str]

    def ask(self, path: str, /, **body: Any) -> Any:
        """POST where there is a body, else GET; the answer as JSON."""
        return self._request("POST" if body else "GET", path, body or None)

    def post(self, path: str, items: list[dict[str, Any]]) -> Any:
        return self._request("POST", path, items)

    def change(self, path: str, /, **body: Any) -> None:
        """PATCH: change what is there."""
        self._request("PATCH", path, body)

    def delete(self, path: str) -> None:
        self._request("DELETE", path, None)

    def _request(self, method: str, path: str, body: object) -> Any:
        """Asked again while SQLite is locked by others, as Prefect's own client does; a lost question too."""
        is_question = method == "GET" or path.endswith("/filter")

        def look() -> httpx.Response | None:
            try:
                answer = self.client.request(method, path, json=body)
            except httpx.TransportError:
                if not is_question:
                    raise
                return None
            return None if answer.status_code == 503 else answer

        answer = wait_for(look, f"an answer of the server to {path}")
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def command(self, *words: str, folder: Path | None = None) -> str:
        """Run a `prefect` command of the user's in a folder; what it printed."""
        done = subprocess.run(
            [*PREFECT, "--no-prompt", *words], env=dict(self.environment), cwd=folder or self.folder,
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run_of(self, job: str) -> dict[str, Any] | None:
        """The newest flow run of a job that has started."""
        runs = self.ask("/flow_runs/filter", sort="START_TIME_DESC", limit=200)
        return next((run for run in runs if run["parameters"].get("name") == job and run["start_time"]), None)

    def wait_for_run(self, job: str) -> dict[str, Any]:
        return wait_for(lambda: self.run_of(job), f"a flow run of {job}")

    def wait_for_end(self, run: Mapping[str, Any], but_not: frozenset[str] = frozenset()) -> dict[str, Any]:
        """The run's final state. A run without one ends the test."""
        final = {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"} - but_not

        def look() -> dict[str, Any] | None:
            state: dict[str, Any] = self.ask(f"/flow_runs/{run['id']}")["state"]
            return state if state["type"] in final else None

        return wait_for(look, f"the end of flow run {run['name']}")

    def task_runs(self, run: Mapping[str, Any]) -> dict[str, str]:
        """Name → state of a flow run's tasks, in the order in which they began."""
        wanted = {"id": {"any_": [run["id"]]}}
        found = self.ask("/task_runs/filter", flow_runs=wanted, sort="EXPECTED_START_TIME_ASC")
        return {task["name"]: task["state"]["name"] for task in found}

    def artifacts(self, run: Mapping[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("/artifacts/filter", artifacts={"flow_run_id": {"any_": [run["id"]]}})
        return found

    def log(self, run: Mapping[str, Any], contains: str) -> str:
        """The first message of a flow run's log with these words; logs are sent every other second."""

        def look() -> str | None:
            return next((line for line in self._lines(run) if contains in line), None)

        return wait_for(look, f"{contains!r} in the log")

    def log_lines(self, run: Mapping[str, Any]) -> list[str]:
        """All of a flow run's log, once its end is in it."""
        self.log(run, "Finished in state ")
        return self._lines(run)

    def _lines(self, run: Mapping[str, Any]) -> list[str]:
        lines = self.ask("/logs/filter", logs={"flow_run_id": {"any_": [run["id"]]}})
        return [line["message"] for line in lines]


# So that tests wait less, and a busy machine's locked SQLite or late PostgreSQL is no error.
IMPATIENT = {
    "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "1",
    "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
    "PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT": "60",
    "PREFECT_WORKER_QUERY_SECONDS": "1",
    "PREFECT_LOGGING_TO_API_BATCH_INTERVAL": "0.5",
    "PREFECT_LOGGING_LEVEL": "INFO",
    "PREFECT_CLI_COLORS": "false",
}


@contextmanager
def running_server(
    folder: Path, settings: Mapping[str, str] = IMPATIENT, *, database: str | None = None
) -> Iterator[Server]:
    """A server of its own: a free port of the loopback, its home below `folder`. database: by default SQLite there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    url = f"http://127.0.0.1:{port}/api"
    home = folder / "prefect"
    if database is None:
        lay_tables(home / "prefect.db")
    environment = {
        **os.environ,
        "PREFECT_API_URL": url,
        "PREFECT_HOME": str(home),
        "PREFECT_PROFILES_PATH": str(folder / "profiles.toml"),
        **settings,
        **({"PREFECT_SERVER_DATABASE_CONNECTION_URL": database} if database else {}),
    }
    command = [*PREFECT, "server", "start", "--host", "127.0.0.1", "--port", port]
    with (
        running(command, environment, folder, "server") as process,
        httpx.Client(base_url=url, timeout=PATIENCE) as client,
    ):
        wait_for(lambda: _is_up(client) or process.poll() is not None, "the Prefect server")
        assert process.poll() is None, (folder / "server.log").read_text()
        yield Server(client=client, folder=folder, environment=environment)


def _is_up(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def running(
    command: list[str], environment: Mapping[str, str], folder: Path, name: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process beside the tests; it and whatever it started are gone afterwards, and it alone if they are killed."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=dict(environment), cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True, preexec_fn=end_with_the_tests,
        )  # fmt: skip
    try:
        yield process
    finally:
        kill_tree(process)


def kill_tree(process: subprocess.Popen[Any]) -> None:
    """A polite end, and a hard one for whatever is left of it."""
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for child in family:
        if child.is_running():
            child.kill()
