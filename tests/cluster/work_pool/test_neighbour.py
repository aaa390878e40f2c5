"""Prefect's own Kubernetes worker in the same cluster: it watches all pods and Jobs, and leaves our runs alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from neighbour import Neighbour
from prefect_server import Server, wait_for
from scenes import Played, Story, named
from slice_pool import SlicePool
from stories_lost import STORIES

pytestmark = [pytest.mark.work_pool, pytest.mark.timeout(1500)]

LOST = [(story, "postgres") for story in STORIES if "postgres" in story.on]  # where the neighbour is, always


def test_it_is_there_and_watches(neighbour: Neighbour, pool_on: Callable[[str], SlicePool]) -> None:
    """A Job that carries the label of a run and fails: the neighbour marks that run as crashed, as it would ours."""
    pool = pool_on("postgres")
    run = pool.server.ask("/flow_runs/", flow_id=pool.server.ask("/flows/", name="theirs")["id"], name="theirs")
    pool.server.ask(f"/flow_runs/{run['id']}/set_state", state={"type": "RUNNING"}, force=True)
    neighbour.start_failing_job(pool.namespace, run["id"])
    wait_for(lambda: pool.server.ask(f"/flow_runs/{run['id']}")["state"]["type"] == "CRASHED", "the neighbour's word")
    assert _said_of(pool.server, run["id"])


@pytest.mark.parametrize(("story", "database"), LOST, ids=named)
def test_it_says_nothing_of_our_runs(
    neighbour: Neighbour,
    outcome_of: Callable[[Story, str], Played],
    pool_on: Callable[[str], SlicePool],
    story: Story,
    database: str,
) -> None:
    played = outcome_of(story, database)
    assert not _said_of(pool_on(database).server, played.run.id)
    assert played.run.id not in neighbour.said and played.run.job not in neighbour.said


def _said_of(server: Server, run: str) -> list[str]:
    """The events that the neighbour's observer makes of a run's pods."""
    wanted = {"event": {"prefix": ["prefect.kubernetes."]}, "any_resource": {"id": [f"prefect.flow-run.{run}"]}}
    return [one["event"] for one in server.ask("/events/filter", filter=wanted, limit=50)["events"]]
