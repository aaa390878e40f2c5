"""What is asked for a candidate, and what is refused before anything is trained."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from prefect_tpu.flows.candidate import Asked
from prefect_tpu.flows.form import Training
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.models.beginning import Wish
from prefect_tpu.infra.models.judging import Rule
from prefect_tpu.infra.policy.retraining import Mode

ASKED = Asked(
    wish=Wish(model="m", output="/jobs", data={}, held_out={}),
    rule=Rule(program="judge.py:evaluate", params={}, metric="loss", mode=Mode.MIN, min_improvement=0.0),
    program="train.py:main",
    params={},
    accelerator="v6e-16",
    judged_on="",
    approval_hours=0.0,
    options=Training(slices=2, fallback_accelerators=["v5e-16"], drills=["crash@step=1"], env={"A": "1"}).given(),
)


def test_a_judge_runs_as_the_training_did_but_without_its_drills() -> None:
    found = ASKED.of_judges
    assert found["accelerator"] == "v6e-16" and "drills" not in found
    assert (found["slices"], found["fallback_accelerators"], found["env"]) == (2, ["v5e-16"], {"A": "1"})


def test_on_a_slice_of_its_own_it_takes_one_and_no_other() -> None:
    found = replace(ASKED, judged_on="v6e-1").of_judges
    assert found["accelerator"] == "v6e-1" and found["env"] == {"A": "1"}
    assert not found.keys() & {"slices", "fallback_accelerators", "drills"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"judged_on": "v6e-17"}, "v6e-17"),
        ({"accelerator": "v6e-17"}, "v6e-17"),
        ({"approval_hours": -1.0}, "approval_hours is -1.0: give a number from 0 to 8784"),
        ({"approval_hours": math.nan}, "approval_hours is nan"),
        ({"approval_hours": math.inf}, "approval_hours is inf"),
        ({"approval_hours": 1e6}, "approval_hours is 1000000.0"),
    ],
)
def test_what_would_only_be_found_out_later_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        replace(ASKED, **change)
