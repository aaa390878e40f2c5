"""Which steps are recorded, as people write it."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.windows import Window, parse_window


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("skip=3,steps=2", Window(skip=3, steps=2)),
        (" Steps=2 , skip=3", Window(skip=3, steps=2)),
        ("steps=7", Window(skip=10, steps=7)),
        ("skip=100", Window(skip=100, steps=5)),
    ],
)
def test_what_can_be_written(text: str, window: Window) -> None:
    assert parse_window(text) == window and parse_window(str(window)) == window


@pytest.mark.parametrize("text", ["", "5", "skip", "skip=-1", "skip=1;steps=2", "skip=1,hosts=2"])
def test_what_names_no_steps(text: str) -> None:
    with pytest.raises(UsageError, match=r"names no steps: write skip=N,steps=M, such as skip=10,steps=5\."):
        parse_window(text)


@pytest.mark.parametrize("text", ["skip=0", "steps=0"])
def test_a_window_of_nothing(text: str) -> None:
    with pytest.raises(UsageError, match="records nothing: both numbers are 1 at least"):
        parse_window(text)
