"""`every_host` where there is no slice, what it refuses before anything is sent, and what it does with an answer."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pytest
from prefect import flow, task

import prefect_tpu as tpu
from prefect_tpu.flows.every_host import _found_there, _key
from prefect_tpu.infra import regions
from prefect_tpu.infra.contract import Env, ProgramError
from prefect_tpu.infra.errors import RegionFailed, UsageError
from prefect_tpu.infra.host.values import keep_exception
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.packing import pack_function
from prefect_tpu.infra.pickling import Arguments
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.regions import Message


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


REGION_KEY = "5e" * 32


@contextmanager
def answering(*answers: Message) -> Iterator[str]:
    """Where an agent gives these answers to whoever asks for a region."""

    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        _, channel = regions.answer(connection, REGION_KEY, "/out/digits/3")
        channel.receive()
        for message in answers:
            channel.send(message)
        with suppress(OSError):
            channel.receive()
        channel.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(20)


@pytest.mark.parametrize("error", [FileNotFoundError("no such shard"), ConnectionResetError("reset"), ValueError("no")])
def test_what_a_region_raises_is_raised_also_where_a_connection_would_raise_it(
    on_a_host: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    kept = keep_exception(error, tmp_path / "exception")
    said = asdict(ProgramError(type=type(error).__name__, message=str(error), traceback="Traceback …"))
    facts = {"host": 1, "told": "raised it", "error": said, "exception": kept}
    raised = Message(kind="raised", facts=facts, parts=((tmp_path / "exception").read_bytes(),))
    monkeypatch.setenv(Env.REGION_KEY, REGION_KEY)
    with answering(raised) as address:
        on_a_host(regions=address, program=Program(kind="flow", target="prefect"))
        with pytest.raises(type(error), match=str(error)) as found:
            tpu.every_host(part)("a")
    assert isinstance(found.value.__cause__, RegionFailed)
    assert found.value.__notes__ == ["Raised on host 1:\nTraceback …"]


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


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[ModuleType]:
    """A module as Prefect names that of a flow's file where another module has its name already."""
    file = tmp_path / "flow_of_this_test.py"
    file.write_text("FACTOR = 3\ndef scale(x): return FACTOR * x\n")
    module = ModuleType("__prefect_loader_1f__")
    module.__file__ = str(file)
    exec(file.read_text(), module.__dict__)
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def packed(function: Callable[..., Any]) -> bytes:
    with _found_there(function):
        return cloudpickle.dumps(function)


def test_a_module_that_no_import_finds_by_its_name_travels_by_value(loaded: ModuleType) -> None:
    pickled = packed(loaded.scale)
    del sys.modules[loaded.__name__]
    try:
        assert cloudpickle.loads(pickled)(2) == 6
    finally:
        sys.modules[loaded.__name__] = loaded


def test_tasks_that_call_at_once_each_send_it(loaded: ModuleType) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(packed, [loaded.scale] * 400))
    assert all(b"FACTOR" in one for one in found), "by value, none by a name that no host finds"
