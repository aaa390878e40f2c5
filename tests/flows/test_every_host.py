"""`every_host` where there is no slice, and what it refuses before anything is sent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pytest
from prefect import flow, task

import prefect_tpu as tpu
from prefect_tpu.flows.every_host import _found_there, _key
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.packing import pack_function
from prefect_tpu.infra.pickling import Arguments
from prefect_tpu.infra.plan import HostPlan


def part(word: str, times: int = 1) -> list[Any]:
    here = tpu.info()
    return [word * times, here.host, here.hosts]


def test_outside_a_slice_it_runs_here_as_on_one_host() -> None:
    assert tpu.every_host(part)("a", times=2) == ["aa", 0, 1]
    assert tpu.every_host(part, gather=True)("a") == [["a", 0, 1]]


def test_outside_a_slice_an_exception_is_the_functions_own() -> None:
    with pytest.raises(ZeroDivisionError):
        tpu.every_host(lambda: 1 // 0)()


def test_it_keeps_the_functions_name() -> None:
    assert tpu.every_host(part).__name__ == "part"


@pytest.mark.parametrize("decorate", [task, flow])
def test_a_task_or_flow_of_prefect_is_refused(decorate: Callable[..., Any]) -> None:
    with pytest.raises(UsageError, match=r"every_host was given the (task|flow) 'part': give it a plain function"):
        tpu.every_host(decorate(part))


def test_an_asynchronous_function_is_refused() -> None:
    async def fit() -> None: ...

    with pytest.raises(UsageError, match="'fit' is asynchronous"):
        tpu.every_host(fit)


PLAN: dict[str, Any] = {
    "job": "digits",
    "attempt": 3,
    "accelerator": "v6e-16",
    "output": "/out/digits",
    "hosts": 2,
    "devices_per_host": 4,
    "platform": "cpu",
    "coordinator": "127.0.0.1:20123",
    "addresses": ("127.0.0.1", "127.0.0.1"),
    "program": Program(kind="module", target="m:f"),
    "checkpoint_every": 600.0,
    "grace": 30.0,
    "orphan_after": 60.0,
    "join_timeout": 120.0,
    "python": sys.executable,
}


@pytest.fixture
def on_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """This process is one of a job's host, as its environment tells."""

    def be(**changes: Any) -> None:
        path = tmp_path / "plan.json"
        path.write_bytes(HostPlan(**{**PLAN, **changes}).to_json())
        monkeypatch.setenv(Env.PLAN, str(path))

    return be


def test_in_the_program_of_a_job_it_says_that_every_host_runs_that(on_a_host: Callable[..., None]) -> None:
    on_a_host()
    with pytest.raises(UsageError, match="by the program of job 'digits', which runs on every host already"):
        tpu.every_host(part)("a")


def test_in_a_region_it_says_so(on_a_host: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_host(regions="127.0.0.1:1")
    monkeypatch.setenv(Env.REGION, "/scratch/regions/1")
    with pytest.raises(UsageError, match="inside a region, which runs on every host already: call the function itself"):
        tpu.every_host(part)("a")


def test_a_flow_without_its_key_says_what_is_missing(
    on_a_host: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_host(regions="127.0.0.1:1", program=Program(kind="flow", target="prefect"))
    monkeypatch.delenv(Env.REGION_KEY, raising=False)
    with pytest.raises(UsageError, match=f"The flow has no {Env.REGION_KEY} in its environment"):
        tpu.every_host(part)("a")


def key(function: Callable[..., Any], *args: Any) -> str:
    return _key("part", pack_function(function, {}, Arguments(args=args)).payload or b"")


def test_a_region_is_known_again_by_its_function_and_arguments() -> None:
    cell: dict[str, Any] = {"__name__": "__main__"}  # a notebook's: nothing of these tests travels
    exec("def make(rate):\n    return lambda step: rate * step\ndef part(word): return word", cell)
    make, part = cell["make"], cell["part"]
    assert key(part, "a") == key(part, "a")
    assert key(make(0.1), 1) == key(make(0.1), 1)
    different = {key(part, "a"), key(part, "b"), key(make(0.1), 1), key(make(0.2), 1), key(make(0.1), 2)}
    assert len(different) == 5
    assert all(name.startswith("part-") for name in different)


def test_a_module_that_no_import_finds_by_its_name_travels_by_value(tmp_path: Path) -> None:
    """As Prefect names the module of a flow's file where another module has its name already."""
    file = tmp_path / "flow_of_this_test.py"
    file.write_text("FACTOR = 3\ndef scale(x): return FACTOR * x\n")
    module = ModuleType("__prefect_loader_1f__")
    module.__file__ = str(file)
    exec(file.read_text(), module.__dict__)
    sys.modules[module.__name__] = module
    try:
        with _found_there(module.scale):
            pickled = cloudpickle.dumps(module.scale)
    finally:
        del sys.modules[module.__name__]
    assert cloudpickle.loads(pickled)(2) == 6
