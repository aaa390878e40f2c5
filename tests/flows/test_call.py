"""What a Python call refuses before Prefect is loaded or anything is written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.flows.call import train
from prefect_tpu.flows.job import attach, submit
from prefect_tpu.flows.run import run
from prefect_tpu.infra.errors import NoSuchJob, UsageError


def made() -> Callable[..., int]:
    """A function as a notebook has it: without a file, beside which nothing is to be looked for."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("def program(x: int = 1) -> int:\n    return x\n", space)
    return space["program"]  # type: ignore[no-any-return]


program = made()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"params": [1, 2]}, r"params is \[1, 2\]: give a dictionary by name"),
        ({"params": "abc"}, "params is 'abc'"),
        ({"params": {1: 2}}, "params is {1: 2}"),
        ({"params": {"x": object()}}, "must be JSON: x is of type object"),
        ({"params": {"y": 1}}, "program has no parameter 'y'"),
        ({"accelerator": "v6e-17"}, "Accelerator 'v6e-17' is not a named size"),
        ({"fallback_accelerators": ["tpu"]}, "Accelerator 'tpu'"),
        ({"fallback_accelerators": "cpu"}, "fallback_accelerators is 'cpu': give a list of text"),
        ({"drills": ["quake@step=1"]}, "Drill 'quake@step=1' is not known"),
        ({"drills": ["kill@step=1,host=1"]}, "strikes no host"),
        ({"checkpoint_every": -1}, "checkpoint_every is -1: give a number of seconds above 0"),
        ({"grace": 0}, "grace is 0"),
        ({"timing": {"grase": 1}}, "timing has no field 'grase'. It has: grace"),
        ({"timing": {"deadline": -1}}, "deadline is -1"),
        ({"slices": 0}, "slices is 0: a job runs on one slice at least"),
        ({"pods": ["queue"]}, r"pods is \['queue'\]: give a dictionary by name"),
        ({"pods": {"queue": "tpus"}}, "need an image"),
        ({"cluster": "trainer"}, r"need an image: .*image=…"),
        ({"image": "python", "pods": {"que": "tpus"}}, "Pods have no setting 'que'. Did you mean 'queue'"),
        ({"image": "python", "backend": "local"}, "The local backend has no pods, and image was given"),
        ({"image": "python"}, "is a folder of this machine, where hosts in a cluster cannot write"),
        ({"image": "python", "backend": "swarm"}, "Backend 'swarm' is not known"),
        ({"max_failures": -1}, "max_failures is -1: give a whole number, 0 or more"),
        ({"env": {"A=B": "1"}}, "is no environment variable"),
        ({"env": "A=1"}, "env is 'A=1': give a dictionary"),
        ({"acelerator": "cpu"}, r"train\(\) has no option 'acelerator'. Did you mean 'accelerator'"),
        ({"data": {"a": 5}}, r"data\['a'\] is 5: give the path"),
        ({"data": "a.csv"}, "data is 'a.csv': give a dictionary"),
        ({"output": 5}, "output is 5: give the path"),
        ({"name": 5}, "Job name 5 is not usable"),
        ({"name": "Bad Name"}, "Job name 'Bad Name' is not usable"),
    ],
)
def test_a_call_that_cannot_be_carried_out_says_what_to_change(
    tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    for ask in (train, submit):
        says = says.replace("train", ask.__name__)
        with pytest.raises(UsageError, match=says):
            ask(program, **{"output": tmp_path / "jobs", **options})
    assert not (tmp_path / "jobs").exists()


def test_a_decorated_function_refuses_what_it_cannot_send_or_call(tmp_path: Path) -> None:
    output = tmp_path / "jobs"
    with pytest.raises(UsageError, match=r"run\(\) has no option 'gathr'. Did you mean 'gather'"):
        run(gathr=True)
    with pytest.raises(UsageError, match="is a class"):
        run(dict)
    with pytest.raises(UsageError, match="Accelerator 'v6e-17'"):
        run(program, accelerator="v6e-17", output=output)()
    with pytest.raises(UsageError, match="Argument 'x' of 'program'"):
        run(program, output=output)(threading.Lock())
    with pytest.raises(TypeError, match=r"program\(\) got an unexpected keyword argument 'z'"):
        run(program, output=output)(z=1)
    assert not output.exists()


def test_a_decorated_function_looks_like_itself() -> None:
    decorated = run(accelerator="cpu")(program)
    assert (decorated.__name__, decorated.__module__) == (program.__name__, program.__module__)


def test_on_a_host_a_decorated_function_is_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_TPU_PLAN", "/any")
    assert run(program)(x=3) == 3


def test_a_job_that_is_not_there_cannot_be_attached_to(tmp_path: Path) -> None:
    with pytest.raises(NoSuchJob, match="There is no job 'digits'"):
        attach("digits", output=tmp_path)
