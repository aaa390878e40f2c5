"""What a job waits for is written for those who look at its files, and gone when it waits no longer."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from counting import Counting

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.news import Announcer, News
from prefect_tpu.infra.launcher.status import read_status
from prefect_tpu.infra.launcher.waiting import WaitNote, read_waiting
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.state import JobState
from prefect_tpu.infra.storage import LocalStorage


@pytest.fixture
def said() -> list[str | None]:
    return []


@pytest.fixture
def note_in(said: list[str | None]) -> Callable[[Counting], WaitNote]:
    def hear(news: News) -> None:
        said.append(news.text)

    return lambda storage: WaitNote(storage, Announcer("digits", hear))


def test_it_is_written_on_each_change_and_said_each_minute(
    storage: LocalStorage, note_in: Callable[[Counting], WaitNote], said: list[str | None]
) -> None:
    counting = Counting(storage)
    note = note_in(counting)
    for seconds, reason in [(0.0, "all is taken"), (1.0, "all is taken"), (60.0, "all is taken"), (61.0, "it grows")]:
        note.say(2, reason, seconds)
        anyio.run(note.settle)
    assert counting.questions() == ["put waiting.json"] * 2 and len(said) == 3
    assert (read_waiting(storage, 2), read_waiting(storage, 3)) == ("it grows", None)
    for _ in range(2):
        note.end()
        anyio.run(note.settle)
    assert counting.questions() == ["delete waiting.json"]
    assert read_waiting(storage, 2) is None


def test_a_job_that_waits_is_queued_whether_its_attempt_was_sent_or_not(
    storage: LocalStorage,
    note_in: Callable[[LocalStorage], WaitNote],
    make_job: Callable[..., SliceJob],
    make_plan: Callable[..., HostPlan],
) -> None:
    note = note_in(storage)
    history.enter(storage, make_job())
    note.say(1, "all is taken", 0.0)
    anyio.run(note.settle)
    assert (read_status(storage.url).state, read_status(storage.url).waiting) == (JobState.QUEUED, "all is taken")
    storage.put(layout.plan(1), make_plan(attempt=1).to_json())
    assert (read_status(storage.url).state, read_status(storage.url).waiting) == (JobState.QUEUED, "all is taken")
    storage.put(layout.started(1, 0), contract.write_json({"pid": 1}))
    assert (read_status(storage.url).state, read_status(storage.url).waiting) == (JobState.STARTING, None)
