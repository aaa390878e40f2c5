"""What the decorator tells at once, without a server, and what it leaves to the pool."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from prefect import flow
from prefect.settings import PREFECT_API_URL, temporary_settings

from prefect_tpu import PlatformError, UsageError, tpu_slice
from prefect_tpu.flows.work_pool.worker import TpuSliceWorker


def step(number: int = 1) -> int:
    return number


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"acelerator": "v6e-16"}, "has no setting 'acelerator'. Did you mean 'accelerator'"),
        ({"zone": ["us-east5-b"]}, "Did you mean 'zones'"),
        ({"accelerator": "v6e-15"}, "v6e-16"),
        ({"fallback_accelerators": ["v5p-3"]}, "v5p"),
        ({"mesh": "wide"}, "Setting 'mesh' of a run on a slice is 'wide': Mesh 'wide' cannot be read"),
        ({"mesh": {"tp": 4}, "accelerator": "v6e-8", "slices": 2}, "v6e-8"),
        ({"profile": "all"}, "Profile 'all' names no steps"),
        ({"slices": 0}, "Setting 'slices' of a run on a slice is 0"),
        ({"backend": "cloud"}, "'local', 'jobset' or 'pathways'"),
        ({"grace": "long"}, "Setting 'grace'"),
        ({"command": "sleep 1"}, "leave `command` out"),
        ({"include_files": "*.yaml"}, "give a list of patterns"),
        ({"include_files": ["a", " "]}, "include_files has ' '"),
        ({"launcher": "python"}, "The launcher of upload is 'python'"),
        ({"launcher": []}, "The launcher of upload is []"),
        ({"launcher": {"run": ["python"]}}, "launcher has 'run'"),
        ({"work_pool": step}, "write `@tpu_slice"),
    ],
)
def test_what_could_never_run_is_refused_where_it_is_written(said: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        tpu_slice(**said)
    assert message in str(caught.value)


def test_it_decorates_flows_alone() -> None:
    wrong: Callable[[int], int] = step
    with pytest.raises(UsageError, match="put `@flow` below `@tpu_slice`"):
        tpu_slice()(wrong)  # type: ignore[arg-type]


def test_a_mesh_may_be_given_as_for_any_job() -> None:
    made = tpu_slice(accelerator="v6e-16", mesh={"data": -1, "tp": 4}, profile="skip=3,steps=2")(flow(step))
    assert made.job_variables["mesh"] == '{"data": -1, "tp": 4}'


@pytest.mark.parametrize(
    "said",
    [
        {"accelerator": "{{ prefect.variables.accelerator }}", "slices": "{{ prefect.variables.slices }}"},
        {"env.LEVEL": "debug"},
        {"mesh": "{{ prefect.variables.mesh }}", "profile": "{{ prefect.variables.profile }}"},
        {"mesh": "tp=8", "accelerator": "v6e-16", "slices": "{{ prefect.variables.slices }}"},
        {"of_our_own_template": 1},
        {"accelerator": "v6e-16:spot", "fallback_accelerators": ["v5e-16", "v5p-8"]},
    ],
)
def test_what_only_the_pool_or_the_server_knows_is_left_to_them(said: dict[str, Any]) -> None:
    assert tpu_slice(**said)(flow(step)).job_variables == said


def test_the_flow_stays_what_it_was_and_is_bound() -> None:
    made = tpu_slice("mine", accelerator="v6e-16")(flow(step, name="steps", retries=3))
    assert (made.name, made.retries, made.fn) == ("steps", 3, step)
    assert (made.work_pool, made.worker_cls, made.job_variables) == ("mine", TpuSliceWorker, {"accelerator": "v6e-16"})


@pytest.mark.parametrize(
    ("launcher", "upload", "execution"),
    [
        (None, [sys.executable], ["python"]),
        (["uv", "run"], ["uv", "run"], ["uv", "run"]),
        ({"execution": ["python3.12"]}, [sys.executable], ["python3.12"]),
    ],
)
def test_nothing_is_installed_unless_somebody_says_how(launcher: Any, upload: list[str], execution: list[str]) -> None:
    assert tpu_slice(launcher=launcher)(flow(step)).launcher == {"upload": upload, "execution": execution}


def test_a_call_that_the_flow_would_not_take_is_refused_before_anything_is_asked() -> None:
    made = tpu_slice()(flow(step))
    for call in (made, made.submit, made.submit_to_work_pool):
        with pytest.raises(Exception, match="unexpected keyword argument 'steps'"):
            call(steps=1)


@pytest.mark.parametrize("way", ["__call__", "submit", "submit_to_work_pool"])
def test_a_run_for_others_needs_a_server_that_lasts(way: str) -> None:
    made = tpu_slice(work_pool="tpu")(flow(step))
    with (
        temporary_settings(restore_defaults={PREFECT_API_URL}),
        pytest.raises(PlatformError, match="prefect server st"),
    ):
        getattr(made, way)()
