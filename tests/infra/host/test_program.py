"""Finding the function to call, and the process in which it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from prefect_tpu.infra.contract import Env, ExitCode, Scratch, read_json
from prefect_tpu.infra.host.payload import PayloadRefused, unpack
from prefect_tpu.infra.host.program import load
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.packing import pack, pack_function
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import LocalStorage


@pytest.fixture
def imports() -> Iterator[None]:
    """What a program imports is forgotten afterwards."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.fixture
def arrive(storage: LocalStorage, tmp_path: Path, imports: None) -> Callable[[Any], Callable[..., Any]]:
    """A packed program as its host finds it: sent, laid down, loaded."""

    def load_there(packed: Any) -> Callable[..., Any]:
        packed.send(storage)
        unpack(storage, packed.program.payload, tmp_path / "work")
        return load(packed.program, tmp_path / "work")

    return load_there


def test_a_function_of_a_file_finds_the_modules_beside_it(
    tmp_path: Path, arrive: Callable[[Any], Callable[..., Any]]
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "net_of_this_test.py").write_text("width = 7\n")
    (source / "train_of_this_test.py").write_text(
        "import net_of_this_test\ndef main(times): return net_of_this_test.width * times\n"
    )
    function = arrive(pack(f"{source}/train_of_this_test.py:main", {"times": 2}, ()))
    assert function(times=2) == 14
    assert function.__module__ == "train_of_this_test"
    assert "work" in str(sys.modules["net_of_this_test"].__file__)


def test_a_function_of_a_module(tmp_path: Path, imports: None) -> None:
    (tmp_path / "mod_of_this_test.py").write_text("def main(): return 3\nvalue = 4\n")
    assert load(Program(kind="module", target="mod_of_this_test:main"), tmp_path)() == 3
    for name in ("value", "absent"):
        with pytest.raises(AttributeError, match=f"mod_of_this_test has no function '{name}' to run"):
            load(Program(kind="module", target=f"mod_of_this_test:{name}"), tmp_path)


def test_a_file_that_did_not_travel_is_named(tmp_path: Path, imports: None) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"train\.py is not in the payload"):
        load(Program(kind="file", target="train.py:main"), tmp_path)


def test_a_pickled_function_arrives_with_what_it_closes_over(arrive: Callable[[Any], Callable[..., Any]]) -> None:
    factor = 6
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("def make(factor):\n    return lambda x: x * factor", namespace)
    assert arrive(pack_function(namespace["make"](factor), {"x": 7}))(x=7) == 42


def test_a_pickle_of_another_python_is_not_loaded(tmp_path: Path, imports: None) -> None:
    (tmp_path / "versions.json").write_text('{"python": "3.99", "cloudpickle": "3.1"}')
    (tmp_path / "function.pkl").write_bytes(b"would not load")
    with pytest.raises(PayloadRefused, match=r"3\.99"):
        load(Program(kind="function", target="f", payload="a" * 64), tmp_path)


# -- the whole process, as a runner starts it ------------------------------------------------------

PROGRAM = """
import sys
from prefect_tpu.infra.errors import CouldNotJoin, Preempted, WrongSlice

class Mute(Exception):
    def __str__(self): raise RuntimeError("not even this")

def main(how):
    if how == "returns": return {"how": how}
    if how == "leaves": sys.exit()
    if how == "leaves with 3": sys.exit(3)
    if how == "is preempted": raise Preempted(5)
    if how == "finds another slice": raise WrongSlice("2 devices")
    if how == "could not join": raise CouldNotJoin("nobody there")
    if how == "cannot even say why": raise Mute(how)
    if how == "closed its output": sys.stdout.close(); sys.stderr.close(); raise KeyError(how)
    if how == "lost its connection": raise RuntimeError("Connection refused")
    raise KeyError(how)
"""


@pytest.mark.parametrize(
    ("how", "hosts", "code", "facts"),
    [
        ("returns", 1, ExitCode.DONE, {"result": "json"}),
        ("leaves", 1, ExitCode.DONE, {"result": "json"}),
        ("leaves with 3", 1, ExitCode.PROGRAM_RAISED, {"error": "SystemExit", "lost_peer": False}),
        ("is preempted", 2, ExitCode.PREEMPTED, {}),
        ("finds another slice", 2, ExitCode.WRONG_SLICE, {"error": "WrongSlice"}),
        ("could not join", 2, ExitCode.LOST_PEER, {"error": "CouldNotJoin", "lost_peer": True}),
        ("lost its connection", 2, ExitCode.LOST_PEER, {"error": "RuntimeError", "lost_peer": True}),
        ("lost its connection", 1, ExitCode.PROGRAM_RAISED, {"error": "RuntimeError", "lost_peer": False}),
        ("cannot even say why", 2, ExitCode.PROGRAM_RAISED, {"error": "Mute", "lost_peer": False}),
        ("closed its output", 2, ExitCode.PROGRAM_RAISED, {"error": "KeyError", "lost_peer": False}),
        ("raises", 2, ExitCode.PROGRAM_RAISED, {"error": "KeyError", "lost_peer": False}),
    ],
)
def test_how_a_program_leaves(
    tmp_path: Path, make_plan: Callable[..., HostPlan], how: str, hosts: int, code: ExitCode, facts: dict[str, object]
) -> None:
    ended, outcome = run(tmp_path, make_plan(hosts=hosts, program=program(how)))
    assert ended.returncode == outcome["exit_code"] == code
    assert "exception" not in outcome, "who runs a file has no use for a pickle"
    found = {**outcome, **{"error": outcome.get("error", {}).get("type")}}
    found["result"] = outcome.get("result", {}).get("encoding")
    assert {name: found[name] for name in facts} == facts
    if how == "raises":
        assert "KeyError: 'raises'" in ended.stderr
        assert outcome["error"]["traceback"] in ended.stderr


@pytest.mark.parametrize(
    ("child", "code"),
    [("return 'child'", 0), ("1 / 0", 1), ("sys.exit()", 0), ("sys.exit(7)", 7), ("sys.exit('no more')", 1)],
)
def test_a_forked_child_that_comes_back_is_not_the_program(
    tmp_path: Path, make_plan: Callable[..., HostPlan], child: str, code: int
) -> None:
    forks = f"""
import os, sys
def main(how):
    pid = os.fork()
    if pid == 0:
        {child}
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""
    ended, outcome = run(tmp_path, make_plan(program=program("forks")), forks)
    assert (ended.returncode, outcome["exit_code"]) == (0, ExitCode.DONE), ended.stderr
    assert json.loads((tmp_path / "scratch" / Scratch.VALUE).read_text()) == code


def test_what_a_sent_function_raises_travels_itself(
    tmp_path: Path, storage: LocalStorage, make_plan: Callable[..., HostPlan]
) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("class Odd(Exception): pass\ndef fail(why): raise Odd(why) from MemoryError()", namespace)
    packed = pack_function(namespace["fail"], {"why": "no reason"})
    packed.send(storage)
    unpack(storage, str(packed.program.payload), tmp_path / "scratch" / "work")
    ended, outcome = run(tmp_path, make_plan(program=packed.program))
    assert ended.returncode == ExitCode.PROGRAM_RAISED
    assert (outcome["error"]["type"], outcome["out_of_memory"]) == ("Odd", True)
    raw = (tmp_path / "scratch" / Scratch.EXCEPTION).read_bytes()
    assert outcome["exception"]["bytes"] == len(raw)
    error = cloudpickle.loads(raw)
    assert (type(error).__name__, error.args) == ("Odd", ("no reason",))


def test_a_command_takes_the_place_of_the_process(tmp_path: Path, make_plan: Callable[..., HostPlan]) -> None:
    command = Program(kind="command", target="sh", arguments=("-c", "echo $0 $1; exit 7", "a b", "c"))
    ended, outcome = run(tmp_path, make_plan(program=command))
    assert (ended.returncode, ended.stdout, outcome) == (7, "a b c\n", {})
    ended, _ = run(tmp_path, make_plan(program=Program(kind="command", target="no-such-command-here")))
    assert (ended.returncode, ended.stderr) == (127, "no-such-command-here: No such file or directory\n")


def test_python_is_the_hosts_interpreter_whatever_the_path_has(
    tmp_path: Path, make_plan: Callable[..., HostPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    command = Program(kind="command", target="python", arguments=("-c", "import sys; print(sys.executable)"))
    ended, _ = run(tmp_path, make_plan(program=command))
    assert ended.stdout == f"{sys.executable}\n", ended.stderr


def program(how: str) -> Program:
    return Program(kind="file", target="train.py:main", params={"how": how})


def run(tmp_path: Path, plan: HostPlan, text: str = PROGRAM) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """The process's end, and its own account of it; empty where it left none."""
    work = tmp_path / "scratch" / "work"
    work.mkdir(parents=True, exist_ok=True)
    (work / "train.py").write_text(text)
    (tmp_path / "plan.json").write_bytes(plan.to_json())
    own = {
        Env.PLAN: tmp_path / "plan.json",
        Env.SCRATCH: tmp_path / "scratch",
        Env.RUNNER: os.getpid(),
        Env.HOST: 0,
        Env.STARTED: 0.0,
    }
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "prefect_tpu.infra.host.program"],
        env={**os.environ, **{name: str(value) for name, value in own.items()}},
        cwd=work,
        capture_output=True,
        text=True,
        timeout=60,
    )
    outcome = tmp_path / "scratch" / Scratch.OUTCOME
    return ended, read_json(outcome.read_bytes(), "outcome") if outcome.exists() else {}
