"""A model that tests train again and again: its data, its judges, and runs of the flow that see to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
from prefect_jobs import Job, Orchestrators, mark_of
from prefect_server import Server, wait_for

from prefect_tpu.infra.models.registry import Registry

LEARNER = Path(__file__).parent.parent / "programs" / "learner.py"
MODEL = "mean"
PATIENT = """
import json, time
from pathlib import Path
import prefect_tpu as tpu
HERE = Path({folder!r})

def evaluate():
    (HERE / "judging").touch()
    while not (HERE / "go").exists():
        time.sleep(0.02)
    w = json.loads((Path(tpu.info().start_from) / "model.json").read_text())["w"]
    return {{"loss": (w - 8.0) ** 2, "judge": {number}}}
"""
ANSWERING = """
from pathlib import Path
import json
HERE = Path({folder!r})

def evaluate():
    answers = json.loads((HERE / "answers.json").read_text())
    (HERE / "answers.json").write_text(json.dumps(answers[1:]))
    return answers[0]
"""


class Retrainings:
    """One model, its data, and runs of the flow that see to it."""

    def __init__(self, orchestrators: Orchestrators, job: Job) -> None:
        self._orchestrators, self.job = orchestrators, job
        self.folder = job.folder
        self.output = job.folder / "jobs"
        self.learn_from(8.0)
        self.judge_by(8.0)

    @property
    def registry(self) -> Registry:
        return Registry(str(self.output), MODEL)

    def learn_from(self, *numbers: float) -> None:
        (self.folder / "numbers.txt").write_text("\n".join(map(str, numbers)))

    def judge_by(self, *numbers: float) -> None:
        (self.folder / "held-out.txt").write_text("\n".join(map(str, numbers)))

    def start(self, flow_options: Mapping[str, Any] | None = None, **options: Any) -> Any:
        return self._orchestrators.retrain(self.job, flow_options or {}, **self._asked(options))

    def call(self, **options: Any) -> dict[str, Any]:
        """As a script does, with paths as such."""
        found: dict[str, Any] = self._orchestrators.retrain(self.job, None, **self._asked(options)).result()
        return found

    def _asked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "model": MODEL,
            "program": f"{LEARNER}:main",
            "evaluate": f"{LEARNER}:evaluate",
            "data": {"numbers": str(self.folder / "numbers.txt")},
            "held_out": {"numbers": str(self.folder / "held-out.txt")},
            **options,
        }

    def run(self, **options: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.start(**options).result()
        return found

    def champion(self) -> int | None:
        found = self.registry.champion()
        return found.number if found is not None else None

    def starts_of(self, version: int) -> list[dict[str, int]]:
        """Which attempt's program of a candidate began on which host."""
        path = self.output / f"{MODEL}-{version}" / "starts.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def starts(self, version: int) -> int:
        """How often the program of a candidate began."""
        return len(self.starts_of(version))

    def result(self, version: int) -> dict[str, Any]:
        """How the training of a candidate ended."""
        found: dict[str, Any] = json.loads((self.output / f"{MODEL}-{version}" / "result.json").read_text())
        return found

    def value(self, version: int) -> dict[str, Any]:
        """What it returned."""
        found: dict[str, Any] = self.result(version)["value"]
        return found

    def processes(self, version: int) -> list[psutil.Process]:
        """All that live of the training of a candidate."""
        mark = f"{self.output}/{MODEL}-{version}/"
        return [process for process in psutil.process_iter() if mark_of(process).startswith(mark)]

    def patient_judge(self, number: int = 1) -> str:
        """One that says so when it begins to judge, and waits until the file `go` is there."""
        path = self.folder / "patient.py"
        path.write_text(PATIENT.format(folder=str(self.folder), number=number))
        return f"{path}:evaluate"

    def answering_judge(self, *answers: dict[str, Any]) -> str:
        """One that returns these, one after the other; its code tells nothing of them."""
        (self.folder / "answers.json").write_text(json.dumps(answers))
        path = self.folder / "answering.py"
        path.write_text(ANSWERING.format(folder=str(self.folder)))
        return f"{path}:evaluate"

    def wait_for(self, name: str) -> None:
        """Until a file of that name is in the folder; then it is taken away."""
        wait_for((self.folder / name).exists, name)
        (self.folder / name).unlink()


def events(server: Server, *ids: UUID) -> list[dict[str, Any]]:
    """Those of these ids that the server has."""
    wanted = {"id": {"id": [str(one) for one in ids]}}
    found: list[dict[str, Any]] = server.ask("/events/filter", filter=wanted)["events"]
    return found
