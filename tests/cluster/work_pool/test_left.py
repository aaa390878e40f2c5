"""Objects that nobody minds go after their time, and a job whose driver is dead is brought to its end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scenes import Played, Story, named, on_each
from stories_left import PUT_BACK, TRAINER_KILLED, UNATTENDED

pytestmark = [pytest.mark.work_pool, pytest.mark.timeout(1500)]
OutcomeOf = Callable[[Story, str], Played]


@pytest.mark.parametrize(("story", "database"), on_each([PUT_BACK]), ids=named)
def test_objects_of_a_job_that_is_over_are_ended_by_the_worker(
    outcome_of: OutcomeOf, story: Story, database: str
) -> None:
    """With the rights of the shipped account; its run stays as it was, and nothing of it runs again."""
    played = outcome_of(story, database)
    assert played.state == ("COMPLETED", "Completed") and played.outcomes == ["succeeded"], played.told
    assert played.began == 1 and not played.run.left(), played.told
    assert played.seconds_to_gone is not None


@pytest.mark.parametrize(("story", "database"), on_each([UNATTENDED]), ids=named)
def test_objects_go_after_their_time_where_there_is_no_worker(
    outcome_of: OutcomeOf, story: Story, database: str
) -> None:
    """And what a worker finds afterwards, by the job's files alone, is how it ended."""
    played = outcome_of(story, database)
    assert played.state == ("COMPLETED", "Completed") and played.outcomes == ["succeeded"], played.told
    assert (played.jobsets, played.began) == (1, 1) and not played.left, played.told


@pytest.mark.parametrize(("story", "database"), on_each([TRAINER_KILLED]), ids=named)
def test_a_train_run_whose_process_is_killed_is_brought_to_its_end(
    outcome_of: OutcomeOf, story: Story, database: str
) -> None:
    played = outcome_of(story, database)
    assert played.state[0] == "COMPLETED" and "a worker brought it there" in played.message, played.told
    assert played.outcomes == ["succeeded"] and played.jobsets == 1, played.told
    assert not played.left and not played.overlaps
