"""What happens to a job that another process drives? Told from its files, as its driver would tell it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prefect_tpu.infra.launcher.lease import Pulse
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.launcher.status import JobStatus, StatusReader, pause_between_looks
from prefect_tpu.infra.launcher.wording import counted, end_in_words
from prefect_tpu.infra.state import JobState
from prefect_tpu.infra.storage import Storage

LOOK_SECONDS = 0.5


def follow_while_driven(storage: Storage, heard: Callable[[News], None], saw: Callable[[JobStatus], None]) -> None:
    """Return once the job has its end, or nobody drives it any more, as far as can be told."""
    before: JobStatus | None = None
    reader, pulse = StatusReader(storage), Pulse(storage, time.monotonic)
    pause = pause_between_looks(storage, LOOK_SECONDS)
    while True:
        seen = reader.read()
        for attempt, text in changes(before, seen):
            heard(News(job=seen.name, state=seen.state, attempt=attempt, text=text))
        if seen.state.is_final or seen.driver is None or pulse.driver() is None:
            return
        saw(seen)
        time.sleep(pause)
        before = seen


def changes(before: JobStatus | None, seen: JobStatus) -> Iterator[tuple[int, str]]:
    """(attempt, sentence) for each thing that happened between two looks."""
    if before is None:
        if seen.driver is not None:
            yield seen.attempt, f"driven by {seen.driver}; following it"
        return
    for ended in seen.attempts[len(before.attempts) :]:
        yield ended.number, end_in_words(ended.failure)
    if seen.attempt != before.attempt:
        yield seen.attempt, f"{seen.accelerator}: {counted(len(seen.hosts), 'host')}"
    if seen.waiting is not None and seen.waiting != before.waiting:
        yield seen.attempt, f"waiting: {seen.waiting}"
    if seen.state is not before.state and seen.state in _SAID:
        yield seen.attempt, _SAID[seen.state]


_SAID = {JobState.RUNNING: "all hosts have met", JobState.STOPPING: "stopping: the hosts save and leave"}
