"""What a person sees of a sweep's trials."""

from __future__ import annotations

import json

from prefect_tpu.infra.sweep.report import draw, markdown, rows
from prefect_tpu.infra.sweep.result import SweepResult, TrialResult


def trial(number: int, state: str, value: float | None) -> TrialResult:
    return TrialResult(
        number=number, job=f"fit-{number}", state=state, params={"lr": 0.5, "kind": None}, value=value, steps=4,
        accelerator="v6e-8", chips=8,
    )  # fmt: skip


RESULT = SweepResult(
    sweep="fit", metric="accuracy", mode="max", best=2, value=0.75, params={"lr": 0.5, "kind": None},
    output="gs://b/jobs/fit-2", checkpoint=None,
    trials=(
        trial(0, "failed", None), trial(1, "complete", 0.0), trial(2, "complete", 0.75), trial(3, "pruned", 0.9),
        trial(4, "pruned", None),
    ),
)  # fmt: skip


def test_the_best_trial_comes_first_and_those_without_a_value_last() -> None:
    table = rows(RESULT)
    assert [row["trial"] for row in table] == [2, 1, 3, 4, 0]
    assert table[0] == {
        "trial": 2, "state": "complete", "accuracy": "0.75", "params.lr": "0.5", "params.kind": "None", "steps": 4,
        "accelerator": "v6e-8", "chips": 8, "job": "fit-2",
    }  # fmt: skip
    assert len({tuple(row) for row in table}) == 1, "a table has the same columns in each row"


def test_the_picture_and_the_words_are_there() -> None:
    png = draw(RESULT)
    assert png.startswith(b"\x89PNG")
    text = markdown(RESULT, png)
    assert "**Trial 2: accuracy 0.75** of 5 trials" in text and "`gs://b/jobs/fit-2`" in text
    assert "It saved no checkpoint." in text and "![Trials](data:image/png;base64," in text


def test_a_result_is_the_same_once_it_was_written() -> None:
    assert SweepResult.from_json(json.loads(json.dumps(RESULT.to_json()))) == RESULT
