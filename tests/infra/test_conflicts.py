"""The same name never means two jobs, and whoever asks for another one learns what differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from prefect_tpu.infra.conflicts import check_same
from prefect_tpu.infra.errors import Conflict
from prefect_tpu.infra.job import Program, SliceJob
from prefect_tpu.infra.pods import PodSettings

MakeJob = Callable[..., SliceJob]


def test_the_same_request_is_the_same_job(make_job: MakeJob) -> None:
    check_same(make_job(), SliceJob.from_json(make_job().to_json()))
    assert make_job(grace=20).to_json() != make_job().to_json()


@pytest.mark.parametrize("value", [(1, 2), [(1,), {"a": (2,)}]])
def test_parameters_that_json_changes_on_its_way_are_still_the_same(make_job: MakeJob, value: object) -> None:
    job = make_job(program=Program(kind="module", target="m:f", params={"x": value}))
    check_same(job, SliceJob.from_json(job.to_json()))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"grace": 5.0, "env": {"A": "1"}}, r"env 'A' changed; grace was 30\.0 and is 5\.0"),
        ({"program": Program(kind="module", target="m:g")}, 'program was "m:f" and is "m:g"'),
        ({"program": Program(kind="module", target="m:f", params={"a": 1})}, "params 'a' was not there and is 1"),
        ({"program": Program(kind="module", target="m:f", payload="0" * 64)}, "the program's code changed"),
        ({"program": Program(kind="module", target="m:f", arguments=("x",))}, r'arguments was \[\] and is \["x"\]'),
        ({"data": {"digits": "0" * 64}}, "data 'digits' changed"),
        ({"env": {"A": "1" * 99}}, "env 'A' changed"),
    ],
)
def test_another_request_of_the_same_name_is_a_conflict_that_says_what_differs(
    make_job: MakeJob, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(Conflict, match=rf"Job 'digits' .* differently: {said}\. Use the same values"):
        check_same(make_job(**changes), make_job())


@pytest.mark.parametrize(
    ("stored", "asked", "said"),
    [
        ({"namespace": "ml"}, {}, "pods 'namespace' was \"ml\" and is not there"),
        ({}, {"secrets": {"TOKEN": "hub/token"}}, "pods 'secrets' was not there and is .*"),
        ({}, {"pull_secrets": ("hub",)}, r"pods 'pull_secrets' was not there and is \[.hub.\]"),
        ({"namespace": "ml"}, {"queue": "tpus"}, "pods 'namespace' was .ml. and is not there; pods 'queue' was .*"),
    ],
)
def test_of_pods_it_is_said_which_setting_differs(
    make_job: MakeJob, stored: dict[str, Any], asked: dict[str, Any], said: str
) -> None:
    def job(pods: dict[str, Any]) -> SliceJob:
        return make_job(backend="jobset", pods=PodSettings(image="i:1", **pods))

    with pytest.raises(Conflict, match=f"differently: {said}\\. It has not ended"):
        check_same(job(asked), job(stored))
    check_same(job(asked), job(stored), has_ended=True)


def test_hosts_that_become_pods_are_another_job(make_job: MakeJob) -> None:
    pods = PodSettings(image="i:1", namespace="ml")
    said = "backend was .*; pods 'image' was not there and is .i:1.; pods 'namespace' was not there and is .ml."
    with pytest.raises(Conflict, match=f"differently: {said}\\. Use the same values"):
        check_same(make_job(backend="jobset", pods=pods), make_job())


def test_other_settings_wait_for_the_end(make_job: MakeJob) -> None:
    with pytest.raises(Conflict, match="differently: accelerators .*; deadline .*\\. It has not ended.* stop it first"):
        check_same(make_job(accelerators=("v5p-32",), deadline=5.0), make_job())
    check_same(make_job(accelerators=("v5p-32",), deadline=5.0), make_job(), has_ended=True)
