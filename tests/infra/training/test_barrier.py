"""Who is missing is heard by all who are there, the leader last; what a barrier is called is its own matter."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))  # tests are no package

from on_a_board import Words  # noqa: E402

import prefect_tpu as tpu  # noqa: E402
from prefect_tpu.infra.errors import UsageError  # noqa: E402
from prefect_tpu.infra.training.barrier import folder_of, missing_at  # noqa: E402


def test_who_is_missing_is_heard_by_all_who_are_there() -> None:
    words = Words()
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(missing_at, words.of(1, 3), "begin", 30.0)
        assert missing_at(words.of(0, 3), "begin", 0.2) == (2,)
        assert "begin-heard/1" in words.told, "the leader goes last: with it goes the board"
        assert other.result() == (2,)


def test_a_barrier_is_not_in_the_folder_of_another() -> None:
    """Names may have slashes, and each barrier is passed many times."""
    words = Words()
    names = ("eval", "eval/1", "eval/1/0", "eval%2F1", "é\n")
    for name in names:
        words.of(0, 1).put(f"{folder_of(name, 1)}/0", "")
    for name in names:
        assert words.of(0, 1).below(folder_of(name, 1)) == {"0": ""}


@pytest.mark.parametrize(
    ("name", "timeout"), [("begin", 0), ("", 1.0), (None, 1.0), (7, 1.0), ("begin", "1"), ("begin", float("nan"))]
)
def test_what_is_no_name_and_no_limit_is_refused_also_where_a_host_is_alone(
    inside_job: Callable[..., Any], name: Any, timeout: Any
) -> None:
    inside_job()
    with pytest.raises(UsageError, match="give it a name, and a number of seconds above 0"):
        tpu.barrier(name, timeout=timeout)
