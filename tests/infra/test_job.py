"""A job is complete at birth and survives JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.contract import ContractError
from prefect_tpu.infra.errors import Failure, FailureKind, UsageError
from prefect_tpu.infra.job import (
    SETTINGS,
    AttemptSummary,
    JobResult,
    Program,
    SliceJob,
    check_name,
    name_from_run,
    with_payload,
)

MakeJob = Callable[..., SliceJob]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
LOST = Failure(kind=FailureKind.HOST_LOST, retryable=True, message="gone", advice="wait", host=2, evidence=("a", "b"))


@pytest.mark.parametrize("name", ["a", "digits", "t-0123456789ab", "a-", "a" * 18])
def test_usable_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "A", "1a", "-a", "a_b", "a.b", "a b", "a" * 19, "a\n", "é", "a/b", ".."])
def test_unusable_names_say_what_a_name_looks_like(name: str) -> None:
    with pytest.raises(UsageError, match="start with a letter"):
        check_name(name)


def test_a_name_from_a_flow_run_is_a_usable_name() -> None:
    assert name_from_run("0f3b6e1a-9c55-4d1e-8f00-123456789abc") == "t-123456789abc"
    assert check_name(name_from_run("0f3b6e1a-9c55-4d1e-8f00-123456789abc"))


def test_runs_of_one_millisecond_have_jobs_of_their_own() -> None:
    first, second = "01a22298-71ae-7491-b871-5577abe7677a", "01a22298-71ae-7aa5-b68a-cdc998d9ec4b"
    assert name_from_run(first) != name_from_run(second)


@given(params=st.dictionaries(st.text(), json_values, max_size=4), deadline=st.none() | st.floats(1, 1e6))
@settings(max_examples=40)
def test_a_job_survives_json(make_job: MakeJob, params: dict[str, Any], deadline: float | None) -> None:
    program = Program(kind="command", target="python", arguments=("a.py", "--n"), params=params)
    job = make_job(program=program, deadline=deadline, data={"d": "0" * 64}, env={"A": "1"}, drills=("fail@step=1",))
    assert SliceJob.from_json(job.to_json()) == job
    assert SliceJob.from_json(job.to_json()).to_json() == job.to_json()


def test_a_job_from_a_later_release_with_one_more_field_is_read(make_job: MakeJob) -> None:
    raw = json.dumps({**json.loads(make_job().to_json()), "priority": 3})
    assert SliceJob.from_json(raw) == make_job()


def test_a_damaged_job_is_refused(make_job: MakeJob) -> None:
    with pytest.raises(ContractError, match=r"job\.json is damaged"):
        SliceJob.from_json(make_job().to_json()[:-1])


@pytest.mark.parametrize(
    "changes",
    [
        {"program": 7},
        {"program": {"kind": "module"}},
        {"program": {"kind": "module", "target": "m:f", "arguments": [], "colour": "blue"}},
        {"name": None},
        {"name": "Not a name"},
        {"grace": "long"},
        {"deadline": -1},
    ],
)
def test_a_job_with_other_fields_than_ours_inside_is_refused(make_job: MakeJob, changes: dict[str, Any]) -> None:
    with pytest.raises(ContractError, match="lacks or mistypes a field .*delete it and run the job again"):
        SliceJob.from_json(json.dumps({**json.loads(make_job().to_json()), **changes}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "Digits"}, "Job name 'Digits'"),
        ({"accelerators": ()}, "names no accelerator"),
        ({"grace": 0.0}, "grace is 0.0"),
        ({"checkpoint_every": -1.0}, "checkpoint_every is -1.0"),
        ({"orphan_after": float("nan")}, "orphan_after is nan"),
        ({"join_timeout": 0}, "join_timeout is 0"),
        ({"env": {"A=B": "1"}}, "env has 'A=B', which is no environment variable"),
        ({"env": {"": "1"}}, "a variable without a name"),
        ({"env": {"A": "a\0b"}}, "The value of 'A' in env has a NUL"),
        ({"name": 5}, "Job name 5 is not usable"),
        ({"checkpoint_every": float("inf")}, "checkpoint_every is inf"),
        ({"deadline": 0.0}, "deadline is 0.0"),
        ({"max_preemptions": -1}, "max_preemptions is -1"),
        ({"max_failures": -2}, "max_failures is -2"),
    ],
)
def test_impossible_jobs_are_refused_at_birth(make_job: MakeJob, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        make_job(**changes)


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), float("inf"), b"bytes"])
def test_parameters_that_are_no_json_are_refused(value: object) -> None:
    with pytest.raises(UsageError, match="parameters of 'm:f' must be JSON"):
        Program(kind="module", target="m:f", params={"x": value})


def test_an_unknown_kind_of_program_is_refused() -> None:
    with pytest.raises(UsageError, match="'notebook' is not one of function, module, file, command"):
        Program(kind="notebook", target="a.ipynb")


def test_what_is_trained_stays_the_same(make_job: MakeJob) -> None:
    """A setting is a field of the job, and whatever is not one must stay equal for ever."""
    assert {f.name for f in fields(SliceJob)} > SETTINGS
    assert {f.name for f in fields(SliceJob)} - SETTINGS == {
        "name", "program", "backend", "dialect", "data", "start_from", "env",
    }  # fmt: skip


def test_how_many_steps_are_expected_is_no_part_of_what_is_asked(make_job: MakeJob) -> None:
    job = make_job(program=Program(kind="module", target="m:f", default_steps=40))
    assert SliceJob.from_json(job.to_json()).program.steps == 40
    assert job == make_job(program=Program(kind="module", target="m:f"))


@pytest.mark.parametrize("steps", [0, -1, True, "many", 1.5, None])
def test_only_a_number_of_steps_is_one(steps: object) -> None:
    assert Program(kind="module", target="m:f", params={"steps": steps}, default_steps=5).steps is None


def test_a_payload_is_added_to_a_copy() -> None:
    program = Program(kind="file", target="a.py:f")
    assert with_payload(program, "b" * 64) == replace(program, payload="b" * 64)
    assert program.payload is None


def summary(number: int, failure: Failure | None) -> AttemptSummary:
    return AttemptSummary(
        number=number, accelerator="v6e-16", started=10.0, ended=12.5, outcome="x", failure=failure, saved_step=4
    )


def test_a_result_is_what_run_prints_and_reads_back() -> None:
    result = JobResult(
        job="digits",
        state="failed",
        attempts=(summary(1, LOST), summary(2, None)),
        output="/out/digits",
        value={"loss": 0.5},
        failure=LOST,
    )
    data = json.loads(json.dumps(result.to_json()))
    assert list(data) == ["job", "state", "attempts", "output", "value", "failure"]
    assert {"number", "accelerator", "started", "ended", "outcome", "failure"} <= set(data["attempts"][0])
    assert set(data["failure"]) == {"kind", "host", "retryable", "message", "advice", "evidence"}
    assert data["failure"]["kind"] == "host_lost"
    assert JobResult.from_json(data) == result
    assert JobResult.from_json({**data, "version": 1, "colour": "blue"}) == result


@pytest.mark.parametrize(
    "changes",
    [
        {"attempts": 7},
        {"attempts": [{"number": 1}]},
        {"attempts": [{"number": 1, "failure": {"kind": "bad luck"}}]},
        {"failure": {"kind": "host_lost"}},
        {"failure": 7},
    ],
)
def test_a_result_with_other_fields_than_ours_is_refused(changes: dict[str, Any]) -> None:
    result = JobResult(job="digits", state="failed", attempts=(), output="/out/digits", value=None, failure=LOST)
    with pytest.raises(ContractError, match="lacks or mistypes a field"):
        JobResult.from_json({**result.to_json(), **changes})
    with pytest.raises(ContractError, match="no 'failure'"):
        JobResult.from_json({"job": "digits", "attempts": []})
