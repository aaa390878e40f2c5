"""What real clusters said of real failures, read again: the launcher's verdict is the same without a cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # tests are no package; these modules are for this folder

import failures_page  # noqa: E402
from recorded import FIXTURES, read  # noqa: E402

RECORDED = sorted(FIXTURES.glob("*.json"))
SENT = [path for path in RECORDED if read(path)[0] is not None]


@pytest.mark.parametrize("path", SENT, ids=lambda path: path.stem)
def test_a_recorded_failure_is_judged_as_it_was(path: Path) -> None:
    recording, seen = read(path)
    assert recording is not None
    found = recording.failure()
    assert found is not None
    assert (found.kind.value, found.retryable, found.message) == (seen["kind"], seen["retryable"], seen["message"])


def test_there_are_as_many_as_were_asked_for() -> None:
    assert len(RECORDED) >= 30


def test_the_page_says_what_the_recordings_say() -> None:
    assert failures_page.PAGE.read_text() == failures_page.page(), (
        "run `make failures`, or failures_page.py after a hand"
    )
