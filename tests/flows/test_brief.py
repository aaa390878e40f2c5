"""An error of ours ends where the caller's code ends; any other one keeps its whole way."""

from __future__ import annotations

import logging
import traceback

import pytest

from prefect_tpu.flows.brief import brief
from prefect_tpu.infra.errors import PlatformError, UsageError


def deep(error: BaseException) -> None:
    try:
        raise OSError("full")
    except OSError as exc:
        raise error from exc


@pytest.mark.parametrize(
    ("error", "frames", "cause"),
    [
        (UsageError("u"), 2, type(None)),
        (PlatformError("p"), 2, OSError),
        (ValueError("v"), 3, OSError),
        (KeyboardInterrupt(), 2, type(None)),
    ],
)
def test_only_what_helps_is_shown(error: BaseException, frames: int, cause: type) -> None:
    with pytest.raises(type(error)) as caught:
        brief(deep)(error)
    assert len(traceback.extract_tb(caught.value.__traceback__)) == frames
    assert type(caught.value.__cause__) is cause


def test_who_debugs_sees_the_whole_way(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "prefect"), pytest.raises(UsageError) as caught:
        brief(deep)(UsageError("u"))
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 3 and type(caught.value.__cause__) is OSError


def test_a_call_that_succeeds_is_left_alone() -> None:
    assert brief(divmod)(7, 2) == (3, 1)
