"""Durations are read as people write them, and written as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.flows.shell.durations import clock, seconds, seconds_or_never, written
from prefect_tpu.infra.errors import UsageError


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("90", 90),
        ("0.5", 0.5),
        ("90s", 90),
        ("10m", 600),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1d", 86_400),
        (" 1.5H ", 5400),
    ],
)
def test_what_people_write(text: str, means: float) -> None:
    assert seconds(text, "--grace") == means


@pytest.mark.parametrize("text", ["", "0", "-5", "0s", "inf", "nan", "10 minutes", "5x", "m", "30m1h", "none"])
def test_what_is_no_duration_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(UsageError, match=r"--grace '.*' is no duration above 0: write seconds, or 90s"):
        seconds(text, "--grace")


def test_some_durations_may_be_switched_off() -> None:
    assert [seconds_or_never(text, "--deadline") for text in ("none", "Never", "off", "5m")] == [None, None, None, 300]
    with pytest.raises(UsageError, match="--deadline"):
        seconds_or_never("nothing", "--deadline")


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0s"),
        (-3, "0s"),
        (41.9, "41s"),
        (60, "1m"),
        (312, "5m12s"),
        (3600, "1h"),
        (11_405, "3h10m"),
        (90_000, "1d1h"),
    ],
)
def test_what_people_read(duration: float, text: str) -> None:
    assert written(duration) == text


@given(st.integers(1, 10**7))
def test_what_is_written_reads_back_within_its_smaller_unit(duration: int) -> None:
    assert duration - 3600 < seconds(written(duration), "--grace") <= duration


@pytest.mark.parametrize(("duration", "text"), [(0, "0:00"), (65, "1:05"), (3845, "1:04:05"), (-1, "0:00")])
def test_a_clock(duration: float, text: str) -> None:
    assert clock(duration) == text
