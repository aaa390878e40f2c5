"""A flow run of a `tpu-slice` pool, as Prefect, the cluster and its own signs tell of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control_plane import Api
from objects import JOBSETS
from prefect_server import Server, wait_for

from prefect_tpu.infra.job import name_from_run
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.storage import Storage, open_storage

PATIENCE = 1200.0  # a busy machine takes long, and whoever submits a run may be killed several times before it has
PAUSE = 1.0  # between two looks: many look at once, and each costs the server some of the machine
FINAL = {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"}
INDEX = "batch.kubernetes.io/job-completion-index"
OWNER = "prefect-tpu/job"
ENDINGS = ("outcome.json", "verdict.json", "record.json", "log", "started.json", "progress.json")
LAST_BYTES = 1_500
Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRun:
    """One of them.

    signs: the folder that its flow writes to. output: of all jobs of the pool.
    named: what its job is called where that does not follow from its id.
    """

    id: str
    server: Server
    api: Api
    namespace: str
    output: str
    signs: Path
    named: str = ""

    @property
    def job(self) -> str:
        return self.named or name_from_run(self.id)

    @property
    def folder(self) -> Storage:
        """Of its job."""
        return open_storage(self.output).inside(self.job)

    # What Prefect says

    def read(self) -> Object:
        found: Object = self.server.ask(f"/flow_runs/{self.id}")
        return found

    def is_deleted(self) -> bool:
        return not self.server.ask("/flow_runs/filter", flow_runs={"id": {"any_": [self.id]}})

    @property
    def state(self) -> tuple[str, str]:
        """Type and name."""
        state = self.read()["state"]
        return state["type"], state["name"]

    def states(self) -> list[str]:
        """The names of all states that it had, in order."""
        return [state["name"] for state in self.history()]

    def history(self) -> list[Object]:
        """All states that it had, in order."""
        found: list[Object] = self.server.ask(f"/flow_run_states/?flow_run_id={self.id}")
        return sorted(found, key=lambda state: state["timestamp"])

    def wait_for_name(self, *names: str, words: str = "") -> None:
        """Until its state is called one of these, and its message has these words."""

        def look() -> bool:
            state = self.read()["state"]
            return state["name"] in names and words in (state["message"] or "")

        wait_for(look, f"state {' or '.join(names)} {words} of {self}", PATIENCE, PAUSE)

    def wait_for_end(self) -> Object:
        """Its state, once that is final and its job has its end."""

        def look() -> Object | None:
            state = self.read()["state"]
            is_over = state["type"] in FINAL and (history.read_result(self.folder) or not self.has_job)
            return state if is_over else None

        return wait_for(look, f"the end of {self}", PATIENCE, PAUSE)

    def set_state(self, kind: str, name: str, *, is_forced: bool = False) -> None:
        self.server.ask(f"/flow_runs/{self.id}/set_state", state={"type": kind, "name": name}, force=is_forced)

    # What is written of its job

    @property
    def has_job(self) -> bool:
        return history.is_there(self.folder)

    def wait_for_job(self) -> None:
        """Until its job is written down."""
        wait_for(lambda: self.has_job, f"the job of {self}", PATIENCE)

    def attempts(self) -> list[int]:
        return history.attempt_numbers(self.folder)

    # What the cluster has

    def jobsets(self) -> list[Object]:
        found = self.api.get(f"{JOBSETS}/namespaces/{self.namespace}/jobsets", labelSelector=f"{OWNER}={self.job}")
        items: list[Object] = found["items"]
        return items

    def pods(self) -> list[Object]:
        """By their hosts' numbers; those that are on their way out are left out."""
        found = self.api.get(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=f"{OWNER}={self.job}")
        living = [pod for pod in found["items"] if "deletionTimestamp" not in pod["metadata"]]
        return sorted(living, key=lambda pod: int(pod["metadata"]["labels"][INDEX]))

    def node(self, host: int) -> str:
        return str(self.pods()[host]["spec"]["nodeName"])

    def left(self) -> list[str]:
        """What of it is still in the cluster."""
        kinds = {
            "JobSet": f"{JOBSETS}/namespaces/{self.namespace}/jobsets",
            "pod": f"/api/v1/namespaces/{self.namespace}/pods",
            "Secret": f"/api/v1/namespaces/{self.namespace}/secrets",
            "ConfigMap": f"/api/v1/namespaces/{self.namespace}/configmaps",
        }
        names = [(kind, one["metadata"]["name"]) for kind, path in kinds.items() for one in self.api.get(path)["items"]]
        return [f"{kind} {name}" for kind, name in names if name.startswith(f"{self.job}-")]

    def wait_until_gone(self) -> float:
        """Nothing of it is in the cluster any more; the seconds until then."""
        begun = time.monotonic()
        wait_for(lambda: not self.left(), f"the end of all objects of {self}", PATIENCE, PAUSE)
        return time.monotonic() - begun

    # What its flow says

    @property
    def place(self) -> Path:
        return self.signs / self.id

    def wait_until_up(self, attempt: int, hosts: int) -> None:
        """Until its work has begun on all hosts of an attempt."""
        marks = [self.place / f"up-{attempt}-{host}" for host in range(hosts)]
        try:
            wait_for(lambda: all(mark.exists() for mark in marks), f"the work of attempt {attempt} of {self}", PATIENCE)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from error

    def let_go_on(self) -> None:
        """Whoever waits goes on, now and later."""
        self.place.mkdir(exist_ok=True)
        (self.place / "go").touch()

    def count(self, word: str) -> int:
        """How often its flow has noted this."""
        path = self.place / word
        return len(path.read_text().splitlines()) if path.exists() else 0

    def told(self) -> str:
        """For whoever wonders: its states, its attempts' ends, its hosts' last words, its signs."""
        states = [f"{one['timestamp']} {one['name']}: {one['message'] or ''}" for one in self.history()]
        names = [name for name in self.folder.list("attempts") if name.endswith(ENDINGS)]
        words = [f"{name}: {(self.folder.get(name) or b'')[-LAST_BYTES:].decode(errors='replace')}" for name in names]
        signs = sorted(path.name for path in self.place.iterdir()) if self.place.exists() else []
        return "\n".join([*states, *words, f"signs: {signs}"])

    def __str__(self) -> str:
        return f"flow run {self.id} (job {self.job})"


def told(run: SliceRun) -> Mapping[str, Any]:
    """What a failed test has to know."""
    return {
        "run": str(run),
        "states": [f"{state['name']}: {state['message']}" for state in run.history()],
        "attempts": run.attempts() if run.has_job else [],
        "left": run.left(),
    }
