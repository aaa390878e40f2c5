"""A person is asked before a slice is paid for: once, whatever becomes of the runs that ask."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest
from prefect_server import Server, wait_for
from retrainings import Retrainings

from prefect_tpu.infra.models.beginning import close
from prefect_tpu.infra.models.records import Became

pytestmark = [pytest.mark.prefect, pytest.mark.long, pytest.mark.timeout(400)]

HOURS = 0.03  # within which somebody answers; a run that asks once more than it should fails after it


def _paused(server: Server, model: Retrainings) -> list[dict[str, Any]]:
    """Runs of this model that ask; others' may be left over from tests that failed."""
    found: list[dict[str, Any]] = server.ask(
        "/flow_runs/filter", flow_runs={"state": {"type": {"any_": ["PAUSED"]}}}, limit=200
    )
    return [run for run in found if str(model.folder) in str(run["parameters"].get("held_out"))]


def _asking(server: Server, model: Retrainings) -> dict[str, Any]:
    """The run that asks, once it can be answered."""
    (run,) = wait_for(lambda: _paused(server, model), "a run that asks")
    wait_for(lambda: _has_form(server, run), "its form")
    return dict(run)


def _answer(server: Server, model: Retrainings, is_approved: bool = True, reason: str = "") -> None:
    """Resume the run that asks with a person's answer."""
    run = _asking(server, model)
    server.ask(f"/flow_runs/{run['id']}/resume", run_input={"approved": is_approved, "reason": reason})


def _has_form(server: Server, run: dict[str, Any]) -> bool:
    keyset = server.ask(f"/flow_runs/{run['id']}")["state"]["state_details"]["run_input_keyset"]
    wanted = {"prefix": keyset["schema"], "limit": 1, "exclude_keys": []}
    return bool(server.ask(f"/flow_runs/{run['id']}/input/filter", **wanted))


def test_a_person_is_asked_before_a_slice_is(server: Server, model: Retrainings) -> None:
    run = model.start(approval_hours=HOURS)
    assert not model.starts(1)
    _answer(server, model, False, "too dear")
    found = run.result()
    assert (found["name"], found["value"]["reason"]) == ("Declined", "too dear")
    assert not model.starts(1) and model.champion() is None
    assert model.run(approval_hours=HOURS)["name"] == "Skipped"  # nobody is asked twice about the same data

    model.learn_from(9.0)
    run = model.start(approval_hours=HOURS)
    _answer(server, model)
    assert run.result()["name"] == "Promoted" and model.champion() == 2


def test_an_answer_is_not_lost_with_the_run_that_was_told(server: Server, model: Retrainings) -> None:
    run = model.start(approval_hours=HOURS)
    _asking(server, model)
    run.signal(signal.SIGSTOP)  # it never hears of it
    _answer(server, model)
    run.signal(signal.SIGKILL)
    run.wait()
    assert model.run(approval_hours=HOURS)["name"] == "Promoted"


def test_a_run_that_finds_another_one_asking_waits_for_its_answer(server: Server, model: Retrainings) -> None:
    asking = model.start(approval_hours=HOURS)
    _asking(server, model)
    asking.signal(signal.SIGSTOP)
    waiting = model.start(approval_hours=HOURS)
    wait_for(lambda: "asks somebody already" in waiting.said, "the second run")
    assert len(_paused(server, model)) == 1
    asking.signal(signal.SIGKILL)
    _answer(server, model)
    assert waiting.result()["name"] == "Promoted" and model.starts(1) == 1


def test_two_runs_that_go_on_after_one_answer_train_once(server: Server, model: Retrainings) -> None:
    runs = [model.start(approval_hours=HOURS)]
    _asking(server, model)
    runs.append(model.start(approval_hours=HOURS))
    wait_for(lambda: "asks somebody already" in runs[1].said, "the second run")
    _answer(server, model)
    assert [run.result()["name"] for run in runs] == ["Promoted", "Promoted"]
    assert model.starts(1) == 1 and len(model.registry.history()) == 1


def test_a_candidate_that_has_ended_while_somebody_was_asked_is_not_trained(server: Server, model: Retrainings) -> None:
    run = model.start(approval_hours=HOURS)
    _asking(server, model)
    close(model.registry, model.registry.candidate(1), Became.ABANDONED, "its data changed", time.time())
    _answer(server, model)
    wait_for(lambda: model.registry.look().newest == 2, "the next candidate")
    _answer(server, model)
    assert run.result()["name"] == "Promoted" and model.champion() == 2 and not model.starts(1)


def test_what_is_trained_already_is_judged_without_a_question(server: Server, model: Retrainings) -> None:
    assert "measured no 'accuracy'" in model.run(metric="accuracy")["message"]
    assert model.run(approval_hours=HOURS)["name"] == "Promoted"
