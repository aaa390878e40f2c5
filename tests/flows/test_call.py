"""What a Python call refuses before Prefect is loaded or anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.flows.call import train
from prefect_tpu.infra.errors import UsageError

pytestmark = pytest.mark.slices  # it waits for real time to pass


def program(x: int = 1) -> int:
    return x


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"params": [1, 2]}, r"params is \[1, 2\]: give a dictionary by name"),
        ({"params": "abc"}, "params is 'abc'"),
        ({"params": {1: 2}}, "params is {1: 2}"),
        ({"params": {"x": object()}}, "parameters of 'program' must be JSON"),
        ({"data": {"a": 5}}, r"data\['a'\] is 5: give the path"),
        ({"data": "a.csv"}, "data is 'a.csv': give a dictionary"),
        ({"output": 5}, "output is 5: give the path"),
        ({"name": 5}, "Job name 5 is not usable"),
        ({"name": "Bad Name"}, "Job name 'Bad Name' is not usable"),
    ],
)
def test_a_call_that_cannot_be_carried_out_says_what_to_change(
    tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        train(program, **{"output": tmp_path / "jobs", **options})
    assert not (tmp_path / "jobs").exists()
