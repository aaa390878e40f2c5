"""A run on its way from Prefect to its slice: whoever dies and whatever fails in between, it is started, once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from prefect_way import TROUBLES
from scenes import Story, named, on_each
from short_lives import PREFECT
from stories_submission import KILLED, TROUBLED, TROUBLED_EVERYWHERE, Submitted
from way import BUCKET, CLUSTER

pytestmark = [pytest.mark.work_pool, pytest.mark.timeout(1500)]

# What a worker asks of Prefect between the run that it is handed and the infrastructure id that it stores.
STEPS = {
    "POST /work_pools/NAME/get_scheduled_flow_runs",
    "GET /deployments/ID",
    "GET /flows/ID",
    "POST /flow_runs/ID/set_state",
    "PATCH /flow_runs/ID/labels",
    "PATCH /flow_runs/ID",
}
OutcomeOf = Callable[[Story, str], Submitted]


@pytest.mark.parametrize(("story", "database"), on_each(KILLED), ids=named)
def test_a_worker_is_killed_while_it_submits(outcome_of: OutcomeOf, story: Story, database: str) -> None:
    found = outcome_of(story, database)
    (played,) = found.runs
    assert found.status != 0, found.told
    assert played.state[0] == "COMPLETED", (played.told, found.told)
    assert played.jobsets == 1 and played.began == 1, played.told
    assert played.run.read()["infrastructure_pid"] == played.run.folder.url


@pytest.mark.parametrize(("story", "database"), on_each([TROUBLED, TROUBLED_EVERYWHERE]), ids=named)
def test_refusals_at_each_step_lose_no_run(outcome_of: OutcomeOf, story: Story, database: str) -> None:
    found = outcome_of(story, database)
    told = ([played.told for played in found.runs], found.struck, found.told)
    assert {played.state[0] for played in found.runs} == {"COMPLETED"}, told
    assert {(played.jobsets, played.began) for played in found.runs} == {(1, 1)}, told


@pytest.mark.parametrize(("story", "database"), on_each([TROUBLED]), ids=named)
def test_every_step_was_refused(outcome_of: OutcomeOf, story: Story, database: str) -> None:
    struck = outcome_of(story, database).struck
    assert {sort: struck[sort] for sort in STEPS} == dict.fromkeys(STEPS, len(TROUBLES))


@pytest.mark.parametrize(("story", "database"), on_each([TROUBLED_EVERYWHERE]), ids=named)
def test_all_servers_refused(outcome_of: OutcomeOf, story: Story, database: str) -> None:
    struck = outcome_of(story, database).struck
    assert {sort.partition(" ")[0] for sort in struck} == {PREFECT, CLUSTER, BUCKET}, struck
    print(f"{struck.total()} requests of {len(struck)} sorts went wrong")  # noqa: T201


@pytest.mark.parametrize(("story", "database"), on_each([TROUBLED]), ids=named)
def test_a_run_is_cancelled_while_the_server_is_away(outcome_of: OutcomeOf, story: Story, database: str) -> None:
    found = outcome_of(story, database)
    away = found.away
    assert away is not None and away.state == ("CANCELLED", "Cancelled") and away.outcomes == ["stopped"], found
