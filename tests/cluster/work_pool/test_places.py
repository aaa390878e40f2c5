"""Flow runs elsewhere than on the first slice of the worker's own cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scenes import Played, Story, named, on_each
from stories_places import STOCKOUT, STORIES

from prefect_tpu.infra.launcher import history

pytestmark = [pytest.mark.work_pool, pytest.mark.timeout(1500)]

OUTCOMES = {"falls-back": ["no_capacity", "succeeded"], "on-pathways": ["succeeded"], "saved-cluster": ["succeeded"]}
FALLS_BACK = [story for story in STORIES if story.name == "falls-back"]


@pytest.mark.parametrize(("story", "database"), on_each(STORIES), ids=named)
def test_it_completes_and_leaves_nothing(
    outcome_of: Callable[[Story, str], Played], story: Story, database: str
) -> None:
    played = outcome_of(story, database)
    assert played.state == ("COMPLETED", "Completed"), played.told
    assert played.outcomes == OUTCOMES[story.name] and played.began == 1, played.told
    assert not played.left and not played.overlaps


@pytest.mark.parametrize(("story", "database"), on_each(FALLS_BACK), ids=named)
def test_why_the_first_accelerator_was_not_taken_is_kept(
    outcome_of: Callable[[Story, str], Played], story: Story, database: str
) -> None:
    played = outcome_of(story, database)
    result = history.read_result(played.run.folder)
    assert result is not None, played.told
    first, second = result.attempts
    assert first.failure is not None and STOCKOUT.rstrip(".") in first.failure.message
    assert (first.accelerator, second.accelerator) == ("v5p-32:spot", "v5p-16:spot"), played.told
    assert "Crashed" not in played.states, "it has lost nothing: it waited for its first slice"
