"""What a judge says, and does not say, of a candidate and of the champion."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from prefect_server import Server, wait_for
from retrainings import MODEL, Retrainings

from prefect_tpu.infra.models.records import Became, Entry

pytestmark = [pytest.mark.prefect, pytest.mark.long, pytest.mark.timeout(400)]


def newest(model: Retrainings) -> Entry:
    return model.registry.history(1)[0]


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_number_of_no_value_is_not_better_than_nothing(server: Server, model: Retrainings, loss: float) -> None:
    found = model.run(evaluate=model.answering_judge({"loss": loss, "w": 1.0}))
    assert (found["name"], found["value"]["reason"]) == ("Kept", f"its loss is {loss}")
    assert model.champion() is None and newest(model).became is Became.KEPT


def test_a_champion_that_the_judge_cannot_use_any_more_gives_way(server: Server, model: Retrainings) -> None:
    model.run(evaluate=model.answering_judge({"loss": 0.1}))
    model.learn_from(9.0)
    found = model.run(evaluate=model.answering_judge({"loss": 0.5}, {"loss": float("nan")}))
    assert (found["name"], found["value"]["reason"]) == ("Promoted", "its loss is 0.5, the champion's nan")


def test_a_judge_that_fails_at_the_champion_says_what_to_do(server: Server, model: Retrainings) -> None:
    model.run()
    weights = model.output / f"{MODEL}-1" / "model.json"
    before = weights.read_bytes()
    weights.unlink()
    model.learn_from(8.0, 8.0)
    run = model.start()
    assert run.result()["type"] == "FAILED" and model.champion() == 1
    assert "This was the champion of model 'mean', version 1" in run.said
    assert "let it return {'loss': float('nan')} for them" in run.said
    weights.write_bytes(before)
    assert model.run()["value"]["candidate"] == 2 and model.starts(2) == 1


def test_an_answer_of_no_use_is_asked_for_again(server: Server, model: Retrainings) -> None:
    """Where the judge's code does not travel, as in an image, nothing says that it was mended."""
    judge = model.answering_judge({"accuracy": 1.0}, {"loss": 0.5})
    assert "measured no 'loss'" in model.run(evaluate=judge)["message"]
    assert model.run(evaluate=judge)["name"] == "Promoted" and model.starts(1) == 1


def test_a_judge_that_was_killed_may_go_on_on_another_slice(server: Server, model: Retrainings) -> None:
    judge = model.patient_judge()
    run = model.start(evaluate=judge)
    model.wait_for("judging")
    run.signal(signal.SIGKILL)
    run.wait()
    (model.folder / "go").touch()
    found = model.run(evaluate=judge, evaluate_accelerator="cpu-2x1")
    assert found["name"] == "Promoted" and model.starts(1) == 1


def test_numbers_of_two_judges_are_not_compared(server: Server, model: Retrainings) -> None:
    """The judge's file changes after it has judged the candidate, before it judges the champion."""
    model.run()
    model.learn_from(8.0, 8.0)
    run = model.start(evaluate=model.patient_judge(1))
    model.wait_for("judging")
    model.patient_judge(2)
    (model.folder / "go").touch()
    assert run.result()["name"] == "Promoted"
    tried = newest(model).tried
    assert tried is not None and tried.metrics["judge"] == newest(model).rival["judge"] == 2.0


def test_parts_of_a_run_that_is_repeated_are_not_taken_for_each_other(server: Server, model: Retrainings) -> None:
    """Prefect gives a run that it repeats what its parts returned before, by their order: here the first run has given
    up a candidate, trained another one and failed to judge that; the second one has none to give up.
    """
    left = model.start(params={"steps": 100_000, "seconds": 0.05})
    wait_for(lambda: model.starts(1), "the start of the first candidate")
    left.signal(signal.SIGTERM)
    left.wait()
    options: dict[str, Any] = {"retries": 1, "persist_result": True}
    judge = model.answering_judge({"accuracy": 1.0}, {"loss": 0.5})
    found = model.start(options, evaluate=judge, params={"steps": 4}).result()
    assert (found["name"], found["message"]) == ("Promoted", "Candidate 2: there was no champion; its loss is 0.5.")
    assert model.starts(2) == 1
