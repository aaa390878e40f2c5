"""A model is trained again where its data changed, and what comes of it takes over where it is better."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from typing import Any

import pytest
from prefect_server import Server, wait_for
from retrainings import MODEL, Retrainings, events

from prefect_tpu.infra import layout
from prefect_tpu.infra.models.beginning import close
from prefect_tpu.infra.models.going_back import roll_back
from prefect_tpu.infra.models.records import Became
from prefect_tpu.tasks.model_events import id_of

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(400)]


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
    assert model.value(2)["began_with"] == pytest.approx(7.75)

    model.learn_from(800.0)  # broken data: what is learnt from it is worse
    worse = model.run()
    assert (worse["name"], worse["value"]["decision"]) == ("Kept", "kept")
    assert model.champion() == 2 and worse["value"]["champion"] == 2
    assert model.run()["name"] == "Skipped"  # the same broken data is not tried each night

    fresh = model.run(force=True, warm_start=False, params={"steps": 9})
    assert model.value(4)["began_with"] == 0.0 and fresh["name"] == "Kept"
    assert [entry.became for entry in model.registry.history()] == [
        Became.KEPT, Became.KEPT, Became.PROMOTED, Became.PROMOTED,
    ]  # fmt: skip


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


@pytest.mark.long
def test_a_program_that_fails_costs_one_candidate_and_no_champion(server: Server, model: Retrainings) -> None:
    model.run()
    model.learn_from(9.0)
    failed = model.run(params={"fails": True})
    assert failed["type"] == "FAILED" and "it was asked to fail" in failed["message"]
    assert model.champion() == 1 and model.registry.history(1)[0].became is Became.FAILED
    (told,) = wait_for(lambda: events(server, id_of(model.registry, 2)), "the event")
    assert (told["event"], told["payload"]["candidate"]) == ("prefect-tpu.model.failed", 2)
    assert model.run()["value"]["candidate"] == 3  # the data is as new as before


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_another_program_takes_the_place_of_a_candidate_that_was_left_behind(
    server: Server, model: Retrainings, how: signal.Signals
) -> None:
    """What still runs of it is stopped: in a cluster nobody would."""
    run = model.start(params={"steps": 100_000, "seconds": 0.05})
    wait_for(lambda: model.starts(1), "the start of the first candidate")
    run.signal(how)
    run.wait()
    found = model.run(params={"steps": 4})
    assert model.result(1)["state"] == "stopped" and not model.processes(1)
    assert (found["name"], found["value"]["candidate"]) == ("Promoted", 2)
    oldest = model.registry.history()[-1]
    assert (oldest.became, oldest.candidate) == (Became.ABANDONED, 1) and "steps" in oldest.reason


@pytest.mark.long
def test_a_judge_that_measures_something_else_is_mended_without_training_again(
    server: Server, model: Retrainings
) -> None:
    wrong = model.run(metric="accuracy")
    assert wrong["type"] == "FAILED" and "measured no 'accuracy'" in wrong["message"]
    assert model.champion() is None
    assert model.run()["name"] == "Promoted" and model.starts(1) == 1


@pytest.mark.long
def test_a_champion_that_was_deleted_has_no_say(server: Server, model: Retrainings) -> None:
    model.run()
    (model.output / f"{MODEL}-1" / "job.json").unlink()
    model.learn_from(9.0)
    found = model.run()
    assert found["name"] == "Promoted" and model.champion() == 2
    assert found["value"]["reason"].startswith("the champion's weights are gone; its loss is")
    assert model.value(2)["began_with"] == 0.0


def test_two_runs_at_once_train_one_candidate(server: Server, model: Retrainings) -> None:
    runs = [model.start(params={"steps": 40, "seconds": 0.05}) for _ in range(2)]
    found = [run.result() for run in runs]
    assert [one["name"] for one in found] == ["Promoted", "Promoted"]
    assert [one["value"]["candidate"] for one in found] == [1, 1] and model.starts(1) == 1
    assert len(model.registry.history()) == 1


@pytest.mark.long
def test_a_candidate_that_was_left_behind_goes_on_on_another_slice(server: Server, model: Retrainings) -> None:
    params = {"steps": 1200, "seconds": 0.05}  # longer than the next run takes to get there
    run = model.start(params=params)
    wait_for(lambda: model.starts(1), "the start of the first candidate")
    run.signal(signal.SIGKILL)
    run.wait()
    found = model.run(params=params, accelerator="cpu-2x1")
    assert (found["name"], found["value"]["candidate"]) == ("Promoted", 1)
    assert {start["host"] for start in model.starts_of(1)} == {0, 1}


@pytest.mark.long
def test_of_two_runs_that_want_different_things_the_second_gives_way(server: Server, model: Retrainings) -> None:
    """Else each would give up what the other one trains, and train for ever."""
    first = model.start(params={"steps": 200, "seconds": 0.05})
    wait_for(lambda: model.starts(1), "the start of the first candidate")
    second = model.run(params={"steps": 4})
    assert second["type"] == "FAILED" and "Candidate 1 of model 'mean' is trained by another run" in second["message"]
    assert first.result()["name"] == "Promoted"
    assert [entry.became for entry in model.registry.history()] == [Became.PROMOTED]


@pytest.mark.long
def test_what_a_killed_run_did_not_tell_the_next_one_tells(server: Server, model: Retrainings) -> None:
    model.run()
    second = model.registry.begin(replace(model.registry.candidate(1), number=2, job=f"{MODEL}-2"))
    close(model.registry, second, Became.KEPT, "it was not better", time.time())  # and then it was killed
    assert model.run()["name"] == "Skipped"
    (told,) = wait_for(lambda: events(server, id_of(model.registry, 2)), "the event")
    assert (told["event"], told["payload"]["reason"]) == ("prefect-tpu.model.kept", "it was not better")


@pytest.mark.long
def test_an_old_record_that_is_damaged_costs_no_promotion(server: Server, model: Retrainings) -> None:
    for night in (1, 2):
        model.learn_from(*[8.0] * night)
        model.run()
    model.registry.storage.put(layout.model_entry(1), b"{")
    model.learn_from(8.0, 8.0, 8.0)
    assert model.run()["name"] == "Promoted" and model.champion() == 3


@pytest.mark.long
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


def test_a_call_takes_paths_and_says_what_it_does_not_take(server: Server, model: Retrainings) -> None:
    wrong = model.call(mode="sideways")
    assert wrong["error"] == "WrongParameters" and "mode: Input should be 'min' or 'max'" in wrong["message"]
    assert model.call()["value"]["decision"] == "promoted"


def test_cancelled_and_run_again(server: Server, model: Retrainings) -> None:
    options = {"params": {"steps": 200, "seconds": 0.05}}
    run = model.start(**options)
    wait_for(lambda: model.starts(1), "the start of the first candidate")
    wanted = {"state": {"type": {"any_": ["RUNNING"]}}}
    found = server.ask("/flow_runs/filter", flow_runs=wanted, limit=200)
    parent = next(one for one in found if str(model.folder) in str(one["parameters"].get("held_out")))
    server.ask(f"/flow_runs/{parent['id']}/set_state", state={"type": "CANCELLING", "name": "Cancelling"})
    assert run.result()["type"] == "CANCELLED"
    assert model.registry.look().open is not None and model.registry.history() == []
    assert not model.job.processes()
    assert model.run(**options)["name"] == "Promoted" and model.starts(1) == 2
