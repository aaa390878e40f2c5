"""A model is trained again where its data changed, and what comes of it takes over where it is better."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect_jobs import Job, Orchestrators
from prefect_server import Server, wait_for

from prefect_tpu.infra.models.records import Became
from prefect_tpu.infra.models.registry import Registry, roll_back

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(400)]

LEARNER = Path(__file__).parent.parent / "programs" / "learner.py"
MODEL = "mean"
KILLS = int(os.environ.get("RETRAIN_KILLS", "6"))
SEED = int(os.environ.get("SEED", "8"))
LONGEST_SECONDS = 6.0  # from the start of a run to its kill: most of a run's whole life


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

    def start(self, **options: Any) -> Any:
        wanted = {
            "model": MODEL,
            "program": f"{LEARNER}:main",
            "evaluate": f"{LEARNER}:evaluate",
            "data": {"numbers": str(self.folder / "numbers.txt")},
            "held_out": {"numbers": str(self.folder / "held-out.txt")},
            **options,
        }
        return self._orchestrators.retrain(self.job, **wanted)

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


@pytest.fixture
def model(
    request: pytest.FixtureRequest, orchestrators: Orchestrators, new_job: Callable[[str], Job], tmp_path: Path
) -> Retrainings:
    return Retrainings(orchestrators, new_job("retrain"))


def test_nights_of_a_model(server: Server, model: Retrainings) -> None:
    first = model.run()
    assert (first["type"], first["name"]) == ("COMPLETED", "Promoted")
    assert first["value"]["decision"] == "promoted" and model.champion() == 1
    assert first["value"]["metrics"]["loss"] == pytest.approx(0.25**2)

    def told() -> list[dict[str, Any]]:
        wanted = {"event": {"name": ["prefect-tpu.model.promoted"]}}
        found: list[dict[str, Any]] = server.ask("/events/filter", filter=wanted)["events"]
        return [event for event in found if event["payload"]["checkpoint"] == first["value"]["checkpoint"]]

    assert [event["payload"]["champion"] for event in wait_for(told, "the event")] == [1]

    again = model.run()
    assert (again["name"], again["value"]["decision"]) == ("Skipped", "skipped")
    assert model.starts(1) == 1 and model.starts(2) == 0

    model.learn_from(8.0, 8.0)  # the same mean, but other bytes: the champion's weights are gone on with
    better = model.run()
    assert better["name"] == "Promoted" and model.champion() == 2
    assert better["message"] == "Candidate 2: its loss is 6.10352e-05, the champion's 0.0625."
    assert _value(model, 2)["began_with"] == pytest.approx(7.75)

    model.learn_from(800.0)  # broken data: what is learnt from it is worse
    worse = model.run()
    assert (worse["name"], worse["value"]["decision"]) == ("Kept", "kept")
    assert model.champion() == 2 and worse["value"]["champion"] == 2
    assert model.run()["name"] == "Skipped"  # the same broken data is not tried each night

    fresh = model.run(force=True, warm_start=False, params={"steps": 9})
    assert _value(model, 4)["began_with"] == 0.0 and fresh["name"] == "Kept"
    assert [entry.became for entry in model.registry.history()] == [
        Became.KEPT, Became.KEPT, Became.PROMOTED, Became.PROMOTED,
    ]  # fmt: skip


def _value(model: Retrainings, version: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((model.output / f"{MODEL}-{version}" / "result.json").read_text())["value"]
    return found


def test_lineage_says_all_that_a_champion_came_from(server: Server, model: Retrainings) -> None:
    model.run(params={"steps": 3})
    model.learn_from(9.0)
    model.run(params={"steps": 30})
    standing = model.registry.look()
    assert standing.champion is not None and standing.champion.tried is not None
    version = standing.champion.tried
    assert (version.number, version.parent, len(version.code)) == (2, 1, 64)
    assert version.config["params"] == {"steps": 30} and version.config["judge"]["metric"] == "loss"
    assert version.config["start_from"] == str(model.output / f"{MODEL}-1")
    assert version.data.keys() == {"numbers"} and version.data != model.registry.candidate(1).data
    assert standing.champion.rival.keys() == {"loss", "w"}


def test_a_program_that_fails_costs_one_candidate_and_no_champion(server: Server, model: Retrainings) -> None:
    model.run()
    model.learn_from(9.0)
    failed = model.run(params={"fails": True})
    assert failed["type"] == "FAILED" and "it was asked to fail" in failed["message"]
    assert model.champion() == 1 and model.registry.history(1)[0].became is Became.FAILED
    assert model.run()["value"]["candidate"] == 3  # the data is as new as before


def test_another_program_takes_the_place_of_a_candidate_that_was_left_behind(
    server: Server, model: Retrainings
) -> None:
    run = model.start(params={"steps": 100_000, "seconds": 0.05})
    wait_for(lambda: model.starts(1), "the start of the first candidate")
    run.signal(signal.SIGTERM)
    run.wait()
    found = model.run(params={"steps": 4})
    assert (found["name"], found["value"]["candidate"]) == ("Promoted", 2)
    oldest = model.registry.history()[-1]
    assert (oldest.became, oldest.candidate) == (Became.ABANDONED, 1) and "steps" in oldest.reason


def test_a_judge_that_measures_something_else_is_mended_without_training_again(
    server: Server, model: Retrainings
) -> None:
    wrong = model.run(metric="accuracy")
    assert wrong["type"] == "FAILED" and "measured no 'accuracy'" in wrong["message"]
    assert model.champion() is None
    assert model.run()["name"] == "Promoted" and model.starts(1) == 1


def test_a_champion_that_was_deleted_has_no_say(server: Server, model: Retrainings) -> None:
    model.run()
    (model.output / f"{MODEL}-1" / "job.json").unlink()
    model.learn_from(9.0)
    found = model.run()
    assert found["name"] == "Promoted" and model.champion() == 2
    assert _value(model, 2)["began_with"] == 0.0


def test_two_runs_at_once_train_one_candidate(server: Server, model: Retrainings) -> None:
    runs = [model.start(params={"steps": 40, "seconds": 0.05}) for _ in range(2)]
    found = [run.result() for run in runs]
    assert [one["name"] for one in found] == ["Promoted", "Promoted"]
    assert [one["value"]["candidate"] for one in found] == [1, 1] and model.starts(1) == 1
    assert len(model.registry.history()) == 1


def test_a_roll_back_while_a_candidate_trains_is_what_it_is_judged_by(server: Server, model: Retrainings) -> None:
    model.run()
    model.learn_from(8.0, 8.0)
    model.run()
    model.learn_from(8.0, 8.0, 8.0)
    run = model.start(params={"steps": 60, "seconds": 0.05})
    wait_for(lambda: model.starts(3), "the start of the third candidate")
    roll_back(model.registry, 1, "by hand", time.time())
    found = run.result()
    assert found["name"] == "Promoted" and found["value"]["rival"]["loss"] == pytest.approx(0.0625)
    assert model.champion() == 3


def _answer(server: Server, values: dict[str, Any]) -> str:
    """Resume the paused run with a person's answer; its id."""

    def paused() -> dict[str, Any] | None:
        wanted = {"state": {"type": {"any_": ["PAUSED"]}}}
        found = server.ask("/flow_runs/filter", flow_runs=wanted, limit=5)
        return found[0] if found else None

    run = wait_for(paused, "a run that asks")
    server.ask(f"/flow_runs/{run['id']}/resume", run_input=values)
    return str(run["id"])


def test_a_person_is_asked_before_a_slice_is(server: Server, model: Retrainings) -> None:
    run = model.start(approval_hours=0.1)
    assert not model.starts(1)
    _answer(server, {"approved": False, "reason": "too dear"})
    found = run.result()
    assert (found["name"], found["value"]["reason"]) == ("Declined", "too dear")
    assert not model.starts(1) and model.champion() is None
    assert model.run(approval_hours=0.1)["name"] == "Skipped"  # nobody is asked twice about the same data

    model.learn_from(9.0)
    run = model.start(approval_hours=0.1)
    _answer(server, {"approved": True, "reason": ""})
    assert run.result()["name"] == "Promoted" and model.champion() == 2


def test_cancelled_and_run_again(server: Server, model: Retrainings) -> None:
    options = {"params": {"steps": 400, "seconds": 0.05}}
    run = model.start(**options)
    wait_for(lambda: model.starts(1), "the start of the first candidate")
    wanted = {"state": {"type": {"any_": ["RUNNING"]}}}
    found = server.ask("/flow_runs/filter", flow_runs=wanted, limit=50)
    parent = next(one for one in found if one["parameters"].get("model") == MODEL)
    server.ask(f"/flow_runs/{parent['id']}/set_state", state={"type": "CANCELLING", "name": "Cancelling"})
    assert run.result()["type"] == "CANCELLED"
    assert model.registry.look().open is not None and model.registry.history() == []
    assert not model.job.processes()


def test_killed_at_many_moments(server: Server, model: Retrainings) -> None:
    """The champion is never lost or half-written, and no candidate is trained twice."""
    chance = random.Random(SEED)
    options = {"params": {"steps": 20, "seconds": 0.05}}
    kills, night = 0, 0
    while kills < KILLS:
        night += 1
        model.learn_from(*[8.0] * night)
        before = model.champion()
        while (run := model.start(**options)) and kills < KILLS:
            _kill_after(run, chance.uniform(0.0, LONGEST_SECONDS))
            kills += 1
            assert model.champion() in (before, night)
            if model.champion() == night:
                break
        found = run.result() if run.is_alive or run.outcome.exists() else model.run(**options)
        assert found["name"] in ("Promoted", "Skipped", "Kept"), found
    history = model.registry.history()[::-1]
    assert [entry.number for entry in history] == list(range(1, len(history) + 1))
    assert set(Counter(entry.candidate for entry in history).values()) == {1}
    for number in (entry.candidate for entry in history if entry.candidate is not None):
        lives = [(start["attempt"], start["host"]) for start in model.starts_of(number)]
        assert len(lives) == len(set(lives)), f"candidate {number} was trained twice"
        assert _value(model, number)["w"] == pytest.approx(8.0, abs=1e-3)
    champion = model.registry.champion()
    assert champion is not None and champion.number == history[-1].champion


def _kill_after(run: Any, seconds: float) -> None:
    end = time.monotonic() + seconds  # what is tried is this very moment
    while run.is_alive and time.monotonic() < end:
        time.sleep(0.01)
    if run.is_alive:
        run.signal(signal.SIGKILL)
    run.wait()
