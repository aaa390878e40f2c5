"""What is told of a slice as events, for automations: each once, although two workers of the pool could tell it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from prefect_server import Server, wait_for
from scenes import Played, Story, named, on_each
from slice_pool import SlicePool
from stories_lost import STORIES

pytestmark = [pytest.mark.work_pool, pytest.mark.timeout(1500)]

PREFIX = "prefect-tpu.slice."


@pytest.mark.parametrize(("story", "database"), on_each(STORIES[:2]), ids=named)
def test_each_is_told_once(
    outcome_of: Callable[[Story, str], Played], pool_on: Callable[[str], SlicePool], story: Story, database: str
) -> None:
    job = outcome_of(story, database).run.job
    first, second = (f"{PREFIX}{job}-{attempt}" for attempt in (1, 2))
    lost = f"{PREFIX}preempted"  # spot nodes: also those that go without a word
    expected = {
        (first, f"{PREFIX}provisioned"), (first, f"{PREFIX}started"), (first, lost), (first, f"{PREFIX}restarted"),
        (second, f"{PREFIX}provisioned"), (second, f"{PREFIX}started"), (second, f"{PREFIX}finished"),
    }  # fmt: skip
    server, run = pool_on(database).server, outcome_of(story, database).run.id
    wait_for(lambda: expected <= set(_told(server, run)), f"the events of {job}")
    assert set(_told(server, run).values()) == {1}


def _told(server: Server, run: str) -> Counter[tuple[str, str]]:
    """How often each was told of each attempt."""
    wanted = {"event": {"prefix": [PREFIX]}, "any_resource": {"id": [f"prefect.flow-run.{run}"]}}
    found = server.ask("/events/filter", filter=wanted, limit=50)["events"]
    return Counter((one["resource"]["prefect.resource.id"], one["event"]) for one in found)
