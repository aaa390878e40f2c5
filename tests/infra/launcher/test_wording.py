"""One wording of progress and ends, whoever is told."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.contract import Progress
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.launcher.wording import counted, end_in_words, progress_in_words
from prefect_tpu.infra.policy.failure_kinds import failure


@pytest.mark.parametrize(
    ("progress", "total", "words"),
    [
        (Progress(), 60, ""),
        (Progress(step=3), None, "step 3, nothing saved yet"),
        (Progress(step=3), 60, "4 of 60 steps, nothing saved yet"),
        (Progress(step=59), 60, "60 of 60 steps, nothing saved yet"),
        (Progress(step=60), 60, "60 of 60 steps, nothing saved yet"),
        (
            Progress(step=3, saved_step=2, metrics={"a": 1.23456, "b": 2.0}),
            None,
            "step 3, a 1.235, b 2, step 2 saved",
        ),
    ],
)
def test_progress(progress: Progress, total: int | None, words: str) -> None:
    assert progress_in_words(progress, total) == words


def test_ends() -> None:
    assert end_in_words(None) == "ended with its result"
    assert end_in_words(failure(FailureKind.HOST_LOST, "Host 1 is gone.", host=1)) == "host_lost: Host 1 is gone."


def test_one_is_counted_as_one() -> None:
    assert [counted(number, "host") for number in (0, 1, 4)] == ["0 hosts", "1 host", "4 hosts"]
