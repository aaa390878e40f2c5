"""The words of a command line become what a job is made of, or say what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.flows.shell.asking import request_of
from prefect_tpu.flows.shell.options import JobOptions
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import check_name
from prefect_tpu.infra.request import Request


def asked(**words: Any) -> Request:
    return request_of(JobOptions(**{"target": "train.py:main", **words}))


def test_what_is_not_said_is_left_to_the_job() -> None:
    request = asked()
    assert (request.accelerators, request.settings, request.params) == (("cpu",), {}, {})
    check_name(request.name)
    assert asked().name != request.name


def test_everything_that_can_be_said() -> None:
    request = asked(
        accelerator=["v6e-16", "v6e-8:spot", "cpu"],
        name="digits",
        param=["steps=60", "lr=1e-3", "text=a=b", "note=plain", 'deep={"a": [1]}'],
        env=["A=b=c", "EMPTY="],
        checkpoint_every="10m",
        stall_timeout="none",
        deadline="2h",
        grace="5",
        provision_timeout="1d",
        join_timeout="90s",
        max_preemptions=3,
        max_failures=0,
        dialect="chips",
        drill=["preempt@step=4"],
    )
    assert request.accelerators == ("v6e-16", "v6e-8:spot", "cpu")
    assert request.params == {"steps": 60, "lr": 1e-3, "text": "a=b", "note": "plain", "deep": {"a": [1]}}
    assert request.settings == {
        "checkpoint_every": 600.0,
        "stall_timeout": None,
        "deadline": 7200.0,
        "grace": 5.0,
        "provision_timeout": 86_400.0,
        "join_timeout": 90.0,
        "max_preemptions": 3,
        "max_failures": 0,
        "dialect": "chips",
        "drills": ("preempt@step=4",),
        "env": {"A": "b=c", "EMPTY": ""},
    }


@pytest.mark.parametrize(
    ("given", "means"),
    [(["v6e-16"], ("v6e-16:spot",)), (["v6e-16:spot"], ("v6e-16:spot",)), (["tpu:v6e-16"], ("tpu:v6e-16:spot",))],
)
def test_spot_is_said_once_for_all(given: list[str], means: tuple[str, ...]) -> None:
    assert asked(accelerator=given, spot=True).accelerators == means


def test_data_has_the_name_it_was_given_or_its_own(tmp_path: Path) -> None:
    paths = [f"table={tmp_path}/a.csv", f"{tmp_path}/digits.csv.gz", f"{tmp_path}/my-set/", f"{tmp_path}/a=b.txt"]
    assert asked(data=paths).data == {
        "table": f"{tmp_path}/a.csv",
        "digits": f"{tmp_path}/digits.csv.gz",
        "my_set": f"{tmp_path}/my-set/",
        "a_b": f"{tmp_path}/a=b.txt",
    }


def test_a_variable_without_a_value_is_this_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROJECT", "mine")
    assert asked(env=["PROJECT"]).settings == {"env": {"PROJECT": "mine"}}
    monkeypatch.delenv("PROJECT")
    with pytest.raises(UsageError, match="--env 'PROJECT' has no value and is not set in this shell"):
        asked(env=["PROJECT"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"param": ["steps"]}, "--param 'steps' is not name=value"),
        ({"param": ["a b=1"]}, "--param 'a b=1' is not name=value"),
        ({"param": ["a=1", "a=2"]}, "--param names 'a' twice"),
        ({"data": ["x=a", "b/x.csv"]}, "--data names 'x' twice"),
        ({"data": ["2024.csv"]}, r"--data '2024.csv' gives no name .* write name=path, such as digits=2024\.csv"),
        ({"data": [""]}, "--data '' gives no name"),
        ({"env": ["A=1", "A=2"]}, "--env names 'A' twice"),
        ({"grace": "soon"}, "--grace 'soon' is no duration"),
        ({"stall_timeout": "0"}, "--stall-timeout '0' is no duration"),
        ({"accelerator": ["v6e-16:reserved=x"], "spot": True}, "--spot and 'v6e-16:reserved=x' contradict each other"),
    ],
)
def test_words_that_mean_nothing_are_named(words: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        asked(**words)
