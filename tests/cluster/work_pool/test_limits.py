"""What bounds a flow run: the number of its restarts, the pauses between them, and the slots of its deployment."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from scenes import Story, named, on_each
from stories_limits import STORIES

from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.policy.restarts import FIRST_WAIT_SECONDS

pytestmark = [pytest.mark.work_pool, pytest.mark.timeout(1500)]

CAPPED = [story for story in STORIES if story.name == "capped"]
SLOW = [story for story in STORIES if story.name == "slow-slice"]


@pytest.mark.parametrize(("story", "database"), on_each(CAPPED), ids=named)
def test_a_slice_that_is_lost_too_often(outcome_of: Callable[[Story, str], Any], story: Story, database: str) -> None:
    played = outcome_of(story, database)
    assert played.state[0] == "CRASHED", played.told
    assert len(played.outcomes) == 2 and played.states.count("AwaitingRetry") == 1, played.told
    assert not played.left


@pytest.mark.parametrize(("story", "database"), on_each(CAPPED), ids=named)
def test_a_pause_before_each_restart(outcome_of: Callable[[Story, str], Any], story: Story, database: str) -> None:
    """By the job's clock and by Prefect's; a worker may take the run a little before it is due."""
    played = outcome_of(story, database)
    result = history.read_result(played.run.folder)
    assert result is not None, played.told
    first, second = result.attempts
    assert first.ended is not None and second.started >= first.ended + FIRST_WAIT_SECONDS
    past = played.history
    (crashed, waiting) = next(pair for pair in zip(past, past[1:], strict=False) if pair[1]["name"] == "AwaitingRetry")
    due = datetime.datetime.fromisoformat(waiting["state_details"]["scheduled_time"])
    assert due > datetime.datetime.fromisoformat(crashed["timestamp"]), played.told


@pytest.mark.parametrize(("story", "database"), on_each(SLOW), ids=named)
def test_a_slot_is_kept_while_a_run_waits_for_its_slice(
    outcome_of: Callable[[Story, str], Any], story: Story, database: str
) -> None:
    runs = outcome_of(story, database)
    assert runs.first.state[0] == runs.second.state[0] == "COMPLETED", (runs.first.told, runs.second.told)
    assert not runs.overlapped, "two runs of a deployment that allows one"


@pytest.mark.parametrize(("story", "database"), on_each(SLOW), ids=named)
def test_it_is_said_which_slice_is_waited_for(
    outcome_of: Callable[[Story, str], Any], story: Story, database: str
) -> None:
    first = outcome_of(story, database).first
    said = [state["message"] for state in first.history if state["name"] == "Provisioning"]
    assert said and all("the cluster has no node of this kind" in message for message in said), first.told
