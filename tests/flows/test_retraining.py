"""What `prefect_tpu.retrain` refuses before Prefect is loaded."""

from __future__ import annotations

from typing import Any

import pytest

import prefect_tpu as tpu


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"program": print}, "program is <built-in function print>: name it, as path.py:function"),
        ({"evaluate": print}, "evaluate is <built-in function print>: name it"),
        ({"min_improvment": 1.0}, "Did you mean 'min_improvement'"),
    ],
)
def test_what_no_run_could_be_asked_for(change: dict[str, Any], words: str) -> None:
    with pytest.raises(tpu.UsageError, match=words):
        tpu.retrain(**{"model": "m", "program": "train.py:main", "evaluate": "judge.py:main", **change})
