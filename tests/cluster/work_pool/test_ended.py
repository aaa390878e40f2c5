"""Flow runs that somebody or their own code ends: the right final state, and no object is left."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scenes import Played, Story, named, on_each
from slice_pool import GRACE_SECONDS
from stories_ended import IN_QUEUE, STORIES

from prefect_tpu.flows.work_pool.decision import CANCEL_SECONDS
from prefect_tpu.flows.work_pool.looking import LOOK_SECONDS

pytestmark = [pytest.mark.work_pool, pytest.mark.timeout(1500)]

BY_SOMEBODY = [story for story in STORIES if story.name.startswith(("cancelled", "forced", "without"))]
WAITS = {"cancelled-queued": ("Queued", IN_QUEUE), "cancelled-pulling": ("Pulling", "host 0")}
BY_CODE = {
    "return-flow": ("COMPLETED", ["succeeded"]),
    "return-region": ("COMPLETED", ["succeeded"]),
    "raise-flow": ("FAILED", ["succeeded"]),  # as far as the slice goes: the engine said it all to Prefect
    "raise-region": ("FAILED", ["succeeded"]),
    "memory-flow": ("CRASHED", ["out_of_memory"]),
    "memory-region": ("CRASHED", ["out_of_memory"]),
    "137-region": ("FAILED", ["succeeded"]),
    "killed-region": ("CRASHED", ["host_lost"]),
    "137-flow": ("CRASHED", ["succeeded"]),  # the engine's parent lived to say so
    "killed-flow": ("CRASHED", ["succeeded"]),
}
DELETED = [story for story in STORIES if story.name == "deleted"]
FORGOTTEN = [story for story in STORIES if story.name.endswith("-without-deployment")]
# A worker looks at the run, the engine has its time, and then the hosts have theirs; many stories are played at once.
BUSY_SECONDS = 40.0
SOON_SECONDS = LOOK_SECONDS + CANCEL_SECONDS + GRACE_SECONDS + BUSY_SECONDS


@pytest.mark.parametrize(("story", "database"), on_each(BY_SOMEBODY), ids=named)
def test_a_run_that_somebody_cancels(outcome_of: Callable[[Story, str], Played], story: Story, database: str) -> None:
    played = outcome_of(story, database)
    assert played.state == ("CANCELLED", "Cancelled"), played.told
    assert not set(played.outcomes) & {"succeeded"} and len(played.outcomes) <= 1, played.told
    assert not played.left


@pytest.mark.parametrize(("story", "database"), on_each(story for story in STORIES if story.name in WAITS), ids=named)
def test_it_is_said_what_a_run_waits_for(
    outcome_of: Callable[[Story, str], Played], story: Story, database: str
) -> None:
    played, (name, words) = outcome_of(story, database), WAITS[story.name]
    said = [state["message"] or "" for state in played.history if state["name"] == name]
    assert any(words in message for message in said), played.told


@pytest.mark.parametrize(("story", "database"), on_each(DELETED), ids=named)
def test_a_run_that_is_deleted_leaves_nothing(
    outcome_of: Callable[[Story, str], Played], story: Story, database: str
) -> None:
    played = outcome_of(story, database)
    assert played.state[0] == "RUNNING" and not played.run.left()


@pytest.mark.parametrize(("story", "database"), on_each(BY_SOMEBODY + DELETED), ids=named)
def test_its_objects_are_gone_within_seconds(
    outcome_of: Callable[[Story, str], Played], story: Story, database: str
) -> None:
    """From the moment at which somebody ends it; `pytest -rP` shows the figures."""
    seconds = outcome_of(story, database).seconds_to_gone
    assert seconds is not None and seconds < SOON_SECONDS
    print(f"{story.name} on {database}: nothing was left after {seconds:.1f} s")  # noqa: T201


@pytest.mark.parametrize(("story", "database"), on_each(FORGOTTEN), ids=named)
def test_a_run_whose_deployment_is_gone_is_begun_on_no_other_slice(
    outcome_of: Callable[[Story, str], Played], story: Story, database: str
) -> None:
    """Prefect hands it out again, and the worker finds no settings for it."""
    played = outcome_of(story, database)
    assert played.state == ("CANCELLED", "Cancelled") and "no longer exists" in played.message, played.told
    assert "AwaitingRetry" in played.states and played.outcomes == ["preempted"], played.told
    assert (played.jobsets, played.began) == (1, 1) and not played.left, played.told


@pytest.mark.parametrize(("story", "database"), on_each(story for story in STORIES if story.name in BY_CODE), ids=named)
def test_a_run_that_its_own_code_ends(outcome_of: Callable[[Story, str], Played], story: Story, database: str) -> None:
    played = outcome_of(story, database)
    kind, outcomes = BY_CODE[story.name]
    assert played.state[0] == kind, played.told
    assert played.outcomes == outcomes, played.told
    assert played.began == 1 and not played.left and played.jobsets == 1
