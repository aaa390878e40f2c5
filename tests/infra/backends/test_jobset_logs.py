"""A line is given once, whether it came from a pod or from the job's folder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.jobset_logs import Given, read_log, rest
from prefect_tpu.infra.storage import LocalStorage

LINES = st.lists(st.sampled_from(["a", "b", "loss 0.5", ""]), max_size=30)


def gave(*lines: str) -> Given:
    given = Given()
    for line in lines:
        given.note(line)
    return given


@given(lines=LINES, cut=st.integers(0, 30))
def test_what_was_given_and_the_rest_are_the_whole_log(lines: list[str], cut: int) -> None:
    first = lines[:cut]
    assert [*first, *rest(lines, gave(*first), None)] == lines


@given(lines=LINES, tail=st.integers(0, 40))
def test_a_tail_is_the_last_lines(lines: list[str], tail: int) -> None:
    assert rest(lines, Given(), tail) == (lines[-tail:] if tail else [])


@pytest.mark.parametrize(
    ("given_lines", "expected"),
    [
        (("b",), ["c", "d"]),
        (("b", "c"), ["d"]),
        (("c", "d"), []),
        (("x",), []),  # nobody knows where that was: better too few lines than one twice
    ],
)
def test_after_a_tail_the_place_is_found_by_the_last_lines(given_lines: tuple[str, ...], expected: list[str]) -> None:
    assert rest(["a", "b", "c", "d"], gave(*given_lines), 2) == expected


def test_a_log_is_read_over_all_its_parts(tmp_path) -> None:
    storage = LocalStorage(tmp_path)
    assert read_log(storage, 1, 0) == []
    storage.put(layout.log_part(1, 0, 0), b"one\ntw")
    storage.put(layout.log_part(1, 0, 1), "o\n\nfünf".encode())
    assert read_log(storage, 1, 0) == ["one", "two", "", "fünf"]
