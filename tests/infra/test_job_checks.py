"""What no job can be made of is refused at once, by its name and with what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job_checks import (
    MOST_PARAMS_BYTES,
    OWN_VARIABLES,
    check_count,
    check_environment,
    check_json,
    check_positive,
)


def endless() -> list[Any]:
    holder: list[Any] = []
    holder.append(holder)
    return holder


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ([1], r"are \[1\]: give them by name"),
        ({1: "a"}, "1 is no name"),
        ({"a": {"b": {2: "c"}}}, r"a\['b'\] has the key 2, which is no text"),
        ({"a": [0.5, float("nan")]}, r"a\[1\] is nan, which JSON does not have"),
        ({"a": {"b": float("-inf")}}, r"a\['b'\] is -inf"),
        ({"a": ({"b": object()},)}, r"a\[0\]\['b'\] is of type object"),
        ({"a": b"bytes"}, "a is of type bytes"),
        ({"a": endless()}, "nested too deep, or hold themselves"),
        ({"a": "x" * MOST_PARAMS_BYTES}, "are 256 KiB of JSON, at most 256 may be: put them into a file"),
    ],
)
def test_parameters_that_json_does_not_give_back_are_named(params: Any, says: str) -> None:
    with pytest.raises(UsageError, match=rf"The parameters of 'm:f' .*{says}"):
        check_json("m:f", params)


def test_parameters_that_json_gives_back_pass() -> None:
    check_json("m:f", {"a": None, "b": [1, 2.5, "text", True, {"deep": ()}], "c": 10**40})


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ("A=1", "env is 'A=1': give variables by name"),
        ({"A": 1}, "The value of 'A' in env is of type int: give it as text"),
        ({1: "a"}, "env has the name 1: names are text"),
        ({"": "a"}, "a variable without a name"),
        ({"A=B": "a"}, "no environment variable"),
        ({"A": "a\0"}, "The value of 'A' in env has a NUL"),
        ({Env.ATTEMPT: "/x/1"}, "PREFECT_TPU_ATTEMPT', which prefect-tpu itself sets"),
        ({Env.REGION: "/x/1"}, "PREFECT_TPU_REGION', which prefect-tpu itself sets"),
        ({Env.REGION_KEY: "5e"}, "PREFECT_TPU_REGION_KEY', which prefect-tpu itself sets"),
    ],
)
def test_what_no_host_could_set_is_refused(env: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_environment(env)


def test_settings_of_a_machine_may_be_set_for_a_program() -> None:
    check_environment({"A": "", Env.OUTPUT: "/elsewhere", "XLA_FLAGS": "--x=1"})
    assert Env.OUTPUT not in OWN_VARIABLES


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "10", None, True, [1]])
def test_a_time_is_a_number_above_0(value: Any) -> None:
    with pytest.raises(UsageError, match="grace is .*: give a number of seconds above 0"):
        check_positive("grace", value)


@pytest.mark.parametrize("value", [-1, 1.5, float("nan"), float("inf"), "1", None, False])
def test_a_count_is_a_whole_number(value: Any) -> None:
    with pytest.raises(UsageError, match="max_failures is .*: give a whole number, 0 or more"):
        check_count("max_failures", value)
