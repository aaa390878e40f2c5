"""Runs without a deployment: their infrastructure is known, they can be cancelled, their caller hears of the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scenes import Story, named, on_each
from stories_decorated import STORIES, Called

pytestmark = [pytest.mark.work_pool, pytest.mark.timeout(1500)]

EXPECTED = {
    "decorated-returns": ("COMPLETED", "value", 42),
    "decorated-cancelled": ("CANCELLED", "error", "CancelledRun"),
    "decorated-crashes": ("CRASHED", "error", "CrashedRun"),
    "decorated-alone": ("CANCELLED", "error", "CancelledRun"),
}


@pytest.mark.parametrize(("story", "database"), on_each(STORIES), ids=named)
def test_a_caller_hears_of_the_end(outcome_of: Callable[[Story, str], Called], story: Story, database: str) -> None:
    called = outcome_of(story, database)
    kind, word, told = EXPECTED[story.name]
    assert called.played.state[0] == kind, called.played.told
    assert called.told[word] == told, called.told
    run = called.played.run
    assert run.read()["infrastructure_pid"] == run.folder.url and run.read()["deployment_id"] is None
    assert called.played.jobsets == 1 and not called.played.left
