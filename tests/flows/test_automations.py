"""What the ready-made automations listen to and do; whether Prefect does it is tried in tests/prefect."""

from __future__ import annotations

from uuid import UUID

import pytest
from prefect.automations import EventTrigger
from prefect.server.events.schemas.automations import AutomationCreate
from typer.testing import CliRunner

from prefect_tpu.flows.automations import DOES, NEEDS, Evaluation, Given, Pool, Ready, is_lacking, made, parsed, title
from prefect_tpu.flows.cli import app

POOL = Pool(id=UUID(int=7), name="tpu")
EVALUATION = Evaluation(id=UUID(int=8), name="evaluate/local", parameters=frozenset({"output", "job", "threshold"}))
ALL = Given(block=UUID(int=9), pool=POOL, evaluation=EVALUATION)
OF_ALL_RUNS = Given(block=UUID(int=9), evaluation=EVALUATION)


@pytest.mark.parametrize("given", [ALL, OF_ALL_RUNS])
@pytest.mark.parametrize("ready", Ready)
def test_prefect_takes_each(ready: Ready, given: Given) -> None:
    sent = made(ready, given).model_dump(mode="json")
    taken = AutomationCreate.model_validate(sent)
    assert taken.description == DOES[ready] and taken.enabled and len(taken.actions) == 1


@pytest.mark.parametrize(
    ("ready", "event", "action"),
    [
        (Ready.TELL, "preempted", "send-notification"),
        (Ready.CANCEL, "stalled", "cancel-flow-run"),
        (Ready.EVALUATE, "finished", "run-deployment"),
        (Ready.PAUSE, "failed", "pause-work-pool"),
    ],
)
def test_which_event_does_what(ready: Ready, event: str, action: str) -> None:
    automation = made(ready, ALL)
    assert isinstance(automation.trigger, EventTrigger)
    assert automation.trigger.expect == {f"prefect-tpu.slice.{event}"}
    assert [one.type for one in automation.actions] == [action]


@pytest.mark.parametrize("ready", Ready)
def test_only_runs_of_the_pool_that_was_named_count(ready: Ready) -> None:
    related = made(ready, ALL).model_dump(mode="json")["trigger"]["match_related"]
    assert related == {"prefect.resource.role": "work-pool", "prefect.resource.id": f"prefect.work-pool.{POOL.id}"}


def test_no_pool_is_paused_unnamed_that_has_other_runs_too() -> None:
    automation = made(Ready.PAUSE, Given()).model_dump(mode="json")
    assert automation["trigger"]["match_related"]["prefect.work-pool.type"] == "tpu-slice"
    assert automation["trigger"]["match"]["prefect-tpu.kind"] == "no_quota"
    assert automation["actions"][0]["source"] == "inferred"


def test_an_evaluation_is_told_what_it_takes_and_never_begins_itself() -> None:
    automation = made(Ready.EVALUATE, OF_ALL_RUNS).model_dump(mode="json")
    assert set(automation["actions"][0]["parameters"]) == {"output", "job"}
    assert automation["trigger"]["match"]["prefect-tpu.deployment"] == f"!{EVALUATION.id}"


def test_what_lacks_something_says_what() -> None:
    assert [ready for ready in Ready if is_lacking(ready, Given())] == [*NEEDS] == [Ready.TELL, Ready.EVALUATE]
    assert not any(is_lacking(ready, ALL) for ready in Ready)


@pytest.mark.parametrize("pool", [None, "tpu", "of two words"])
@pytest.mark.parametrize("ready", Ready)
def test_a_name_on_the_server_is_known_again(ready: Ready, pool: str | None) -> None:
    assert title(ready, pool).startswith("prefect-tpu: ")
    assert parsed(title(ready, pool)) == (ready, pool)


@pytest.mark.parametrize("name", ["prefect-tpu: my own", "cancel on stall", "prefect-tpu: cancel on stalls", ""])
def test_somebody_else_s_is_none_of_ours(name: str) -> None:
    assert parsed(name) is None


@pytest.mark.parametrize("command", ["install", "remove"])
def test_help_names_all(command: str) -> None:
    shown = CliRunner().invoke(app, ["automations", command, "--help"], env={"COLUMNS": "200"}).output
    assert [ready for ready in Ready if ready not in shown] == []
