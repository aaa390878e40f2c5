"""Hosts lost under a flow run: the same run goes on, its kept results are kept, and nothing of it runs twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scenes import Played, Story, named, on_each
from stories_lost import LOSSES, STORIES

pytestmark = [pytest.mark.work_pool, pytest.mark.timeout(1500)]

OF = {loss.name: loss for loss in LOSSES}


@pytest.mark.parametrize(("story", "database"), on_each(STORIES), ids=named)
def test_a_run_goes_on_after_its_hosts_were_lost(
    outcome_of: Callable[[Story, str], Played], story: Story, database: str
) -> None:
    played, loss = outcome_of(story, database), OF[story.name]
    assert played.state == ("COMPLETED", "Completed"), played.told
    assert played.outcomes == ["preempted", "succeeded"], "spot nodes: also those that go without a word"
    crashed = played.states.index("Crashed")
    assert played.states[crashed + 1] == "AwaitingRetry", "by the only transition that hands a run out again"
    assert played.states.count("Crashed") == 1, played.told
    assert played.prepared == 1, "a task whose result was kept is not run again"
    assert played.began == (3 if loss.fails_first else 2), "once each time it was started, and once by Prefect's retry"
    assert not played.left and not played.overlaps
    assert played.jobsets == len(played.outcomes)


@pytest.mark.parametrize(("story", "database"), on_each(STORIES[:1]), ids=named)
def test_the_cause_is_told_in_words(outcome_of: Callable[[Story, str], Played], story: Story, database: str) -> None:
    (crashed,) = [state for state in outcome_of(story, database).history if state["name"] == "Crashed"]
    assert "preempt" in crashed["message"].lower() or "taken back" in crashed["message"], crashed["message"]
