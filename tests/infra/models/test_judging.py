"""Who may judge, what counts as an answer, and which job is asked for it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import HostRecord, ResultInfo
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.host.values import encode
from prefect_tpu.infra.job import AttemptSummary, JobResult, check_name
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.models.judging import Rule, evaluation, evaluations_to_try, numbers_of
from prefect_tpu.infra.policy.retraining import Mode
from prefect_tpu.infra.storage import LocalStorage

ATTEMPT = AttemptSummary(number=1, accelerator="cpu", started=0.0, ended=1.0, outcome="succeeded", failure=None)


@pytest.fixture
def rule(tmp_path: Path) -> Rule:
    judge = tmp_path / "judge.py"
    judge.write_text("def evaluate(): ...\n")
    return Rule(program=f"{judge}:evaluate", params={}, metric="loss", mode=Mode.MIN, min_improvement=0.0)


@pytest.fixture
def answer(tmp_path: Path) -> Callable[..., JobResult]:
    """Let a job have returned something."""

    def write(value: object, name: str = "e1-1", raw: bytes | None = None) -> JobResult:
        storage = LocalStorage(tmp_path / "jobs" / name)
        encoding, encoded = encode(value)
        encoded, encoding = (encoded, encoding) if raw is None else (raw, "cloudpickle")
        info = ResultInfo(encoding=encoding, sha256=hashlib.sha256(encoded).hexdigest(), bytes=len(encoded))
        storage.put(layout.record(1, 0), HostRecord(attempt=1, host=0, exit_code=0, result=info).to_json())
        storage.put(layout.result(1, 0), encoded)
        result = JobResult(job=name, state="succeeded", attempts=(ATTEMPT,), output="", value=None, failure=None)
        return history.write_result(storage, result)

    return write


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"min_improvement": -0.1}, "min_improvement is -0.1: give a number, 0 or more"),
        ({"min_improvement": math.nan}, "min_improvement is nan"),
        ({"min_improvement": math.inf}, "min_improvement is inf"),
        ({"metric": ""}, "metric is empty"),
    ],
)
def test_what_nothing_could_be_judged_by(rule: Rule, change: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        replace(rule, **change)


@pytest.mark.parametrize("program", ["true", "script.py"])
def test_a_judge_must_be_able_to_return_something(
    rule: Rule, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("print(0.5)\n")
    with pytest.raises(UsageError, match="is a script or command, which returns nothing: name path.py:function"):
        replace(rule, program=program).mark  # noqa: B018


def test_other_code_and_other_arguments_have_another_mark(rule: Rule) -> None:
    path = Path(rule.program.partition(":")[0])
    path.write_text("def evaluate(n=1): ...\n")
    marks = {rule.mark, replace(rule, params={"n": 2}).mark}
    path.write_text("def evaluate(n=1): return {}\n")
    assert len({*marks, rule.mark}) == 3
    assert replace(rule, metric="w", mode=Mode.MAX).mark == rule.mark  # the same numbers, looked at otherwise


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"loss": 1, "name": "7", "is_good": True}, {"loss": 1.0}),
        ({"loss": np.float32(0.5), "all": np.ones(3)}, {"loss": 0.5}),
        ({"loss": Fraction(1, 4), "huge": 10**400}, {"loss": 0.25}),
        ({"loss": -math.inf}, {"loss": -math.inf}),
    ],
)
def test_numbers_of_any_kind_count(
    rule: Rule, answer: Callable[..., JobResult], value: object, found: dict[str, float]
) -> None:
    assert numbers_of(answer(value), rule) == found


@pytest.mark.parametrize(
    "value", [None, 0.5, [0.5], {"accuracy": 0.5}, {"loss": "0.5"}, {"loss": None}, {"loss": 10**400}]
)
def test_an_answer_without_the_number_that_counts_is_told(
    rule: Rule, answer: Callable[..., JobResult], value: object
) -> None:
    with pytest.raises(UsageError, match=r"measured no 'loss' \(job 'e1-1' returned .* stays as it is"):
        numbers_of(answer(value), rule)


def test_so_is_one_that_cannot_be_read_here(rule: Rule, answer: Callable[..., JobResult]) -> None:
    raw = b"cnowhere_to_be_found\nNumber\n."  # a pickle of what only the judge's image has
    with pytest.raises(UsageError, match="cannot be read here: ModuleNotFoundError.* Let it return plain numbers"):
        numbers_of(answer(None, raw=raw), rule)


def test_what_gave_an_answer_of_no_use_is_not_asked_again(
    rule: Rule, answer: Callable[..., JobResult], tmp_path: Path
) -> None:
    output = str(tmp_path / "jobs")
    first, second, third = islice(evaluations_to_try(output, 2, 1, rule), 3)
    answer({"accuracy": 0.5}, first)
    assert next(evaluations_to_try(output, 2, 1, rule)) == second
    assert next(evaluations_to_try(output, 2, 1, replace(rule, metric="accuracy"))) == first
    answer({"loss": 0.5}, second)
    assert list(islice(evaluations_to_try(output, 2, 1, rule), 2)) == [second, third]


def test_names_are_those_of_jobs_and_each_has_its_own() -> None:
    mark = hashlib.sha256(b"").hexdigest()
    longest = evaluation(99_999, 99_999, mark)
    assert check_name(longest) == longest
    names = {evaluation(c, v, m, b) for c in (1, 2) for v in (1, 2) for m in (mark, mark[::-1]) for b in (0, 1)}
    assert len(names) == 16 and all(check_name(name) == name for name in names)
