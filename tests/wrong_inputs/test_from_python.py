"""Wrong calls from Python: refused before anything runs or is written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import prefect_tpu
from prefect_tpu.infra.errors import NoSuchJob, UsageError

TRAIN = "train.py:main"


def plain(steps: int, seed: int = 0) -> int:
    return steps + seed


def nothing() -> None: ...


async def later() -> None: ...


def holding(lock: Any) -> Callable[[], Any]:
    def main() -> Any:
        return lock

    return main


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown parameter": ({"program": plain, "params": {"step": 1}}, "plain has no parameter 'step'"),
    "a missing parameter": ({"program": plain}, "plain needs 'steps', which was not given"),
    "text for a number": ({"program": plain, "params": {"steps": "10"}}, "'steps' of plain is '10', text"),
    "a class": ({"program": int}, "'int' is a class: give a function"),
    "an asynchronous function": ({"program": later}, "'later' is asynchronous"),
    "a function that cannot be sent": ({"program": holding(threading.Lock())}, "cannot be sent"),
    "parameters that are no mapping": ({"program": TRAIN, "params": [1]}, "params is [1]"),
    "parameters without names": ({"program": TRAIN, "params": {1: 2}}, "params is {1: 2}"),
    "a parameter that is no JSON": ({"program": plain, "params": {"steps": object()}}, "steps is of type object"),
    "a parameter that is not a number": ({"program": TRAIN, "params": {"tag": float("nan")}}, "tag is nan"),
    "keys that are no text": ({"program": TRAIN, "params": {"tag": {1: 2}}}, "tag has the key 1, which is no text"),
    "a parameter that holds itself": ({"program": TRAIN, "params": {"tag": {}}, "knot": True}, "hold themselves"),
    "a huge parameter": ({"program": TRAIN, "params": {"tag": "x" * 2**19}}, "KiB of JSON, at most 256 may be"),
    "data that is no mapping": ({"program": TRAIN, "data": "table.csv"}, "data is 'table.csv'"),
    "data that is no path": ({"program": TRAIN, "data": {"x": 5}}, "data['x'] is 5"),
    "an output that is no path": ({"program": TRAIN, "output": 5}, "output is 5"),
    "a name that is no text": ({"program": TRAIN, "name": 5}, "5"),
    "an accelerator that is no text": ({"program": TRAIN, "accelerator": 16}, "Accelerator 16 is no text"),
    "an unknown accelerator": ({"program": TRAIN, "accelerator": "v6e-17"}, "Accelerator 'v6e-17' is not a named size"),
    "a function on an unknown accelerator": (
        {"program": nothing, "accelerator": "v6e-17"},
        "'v6e-17' is not",
    ),
    "a function with a drill that is none": (
        {"program": nothing, "drills": ["quake"]},
        "Drill 'quake' is not known",
    ),
    "a function for no time": ({"program": nothing, "grace": 0}, "grace is 0"),
    "a function with an output in the way": ({"program": nothing, "output": "a-file"}, "a-file is a file"),
    "an unknown option": ({"program": TRAIN, "checkpoint_evry": 5}, "checkpoint_evry"),
    "a negative time": ({"program": TRAIN, "checkpoint_every": -1}, "checkpoint_every is -1"),
    "a time in words": ({"program": TRAIN, "checkpoint_every": "soon"}, "checkpoint_every"),
    "half a failure": ({"program": TRAIN, "max_failures": 1.5}, "max_failures"),
    "environment that is no mapping": ({"program": TRAIN, "env": ["A=1"]}, "env is ['A=1']"),
    "a variable with '='": ({"program": TRAIN, "env": {"A=B": "1"}}, "env has 'A=B', which"),
    "a variable of our own": ({"program": TRAIN, "env": {"PREFECT_TPU_ATTEMPT": "1"}}, "which prefect-tpu itself sets"),
    "a mesh that is none": ({"program": TRAIN, "mesh": ["data"]}, "Mesh ['data'] cannot be read"),
    "a mesh of fractions": ({"program": TRAIN, "mesh": {"data": 0.5}}, "has the size 0.5"),
    "a mesh that is a number": ({"program": TRAIN, "mesh": 8}, "Mesh 8 cannot be read"),
    "a mesh that the slice cannot be": (
        {"program": TRAIN, "mesh": {"data": 3, "tp": -1}, "accelerator": "v6e-8"},
        "Mesh data=3 × tp=-1 cannot be filled up: v6e-8 has 8 devices",
    ),
    "a drill that is none": ({"program": TRAIN, "drills": ["quake@step=1"]}, "Drill 'quake@step=1' is not known"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_call_is_refused_before_it_is_a_run(place: Any, case: str) -> None:
    keywords, says = CASES[case]
    keywords = dict(keywords)
    if keywords.pop("knot", False):
        keywords["params"]["tag"]["tag"] = keywords["params"]["tag"]
    before = place.seen()
    with pytest.raises(UsageError) as caught:
        prefect_tpu.submit(**keywords)
    message = str(caught.value)
    assert message.count(says) == 1 and len(message.splitlines()) == 1, message
    assert message.endswith((".", "?"))
    assert place.seen() == before


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"params": "steps=1"}, "params"),
        ({"data": {"x": 5}}, "data.x"),
        ({"checkpoint_every": "soon"}, "checkpoint_every"),
        ({"max_failures": 1.5}, "max_failures"),
        ({"drills": "kill@step=1"}, "drills"),
        ({"mesh": {"data": -1}}, "mesh"),
        ({"timing": {"grace": 0}}, "timing.grace"),
        ({"timing": {"deadline": -1}}, "timing.deadline"),
        ({"env": {"A": None}}, "env.A"),
        ({"accelerator": None}, "accelerator"),
    ],
)
def test_a_run_with_parameters_of_the_wrong_type_is_refused_by_its_form(wrong: dict[str, Any], field: str) -> None:
    """What a deployment, the form in the UI and a flow run check first: Prefect names the field."""
    from prefect.exceptions import ParameterTypeError

    from prefect_tpu.flows.train import train

    with pytest.raises(ParameterTypeError, match=rf"(?m)- {field}"):
        train.validate_parameters({"program": TRAIN, **wrong})


WAITS: dict[str, tuple[Callable[[prefect_tpu.Job], Any], str]] = {
    "a time in words": (lambda job: job.result(timeout="3"), "timeout is '3': give a number of seconds"),
    "a time that is no number": (lambda job: job.result(timeout=float("nan")), "timeout is nan"),
    "a time before now": (lambda job: job.result(timeout=-1), "timeout is -1"),
    "a host in words": (lambda job: list(job.logs(host="0")), "host is '0'"),
    "a name that is no text": (lambda job: prefect_tpu.attach(3), "Job name 3 is not usable"),
}


@pytest.mark.parametrize("case", WAITS)
def test_a_wrong_wait_is_refused(tmp_path: Path, case: str) -> None:
    ask, says = WAITS[case]
    with pytest.raises(UsageError) as caught:
        ask(prefect_tpu.Job(name="gone", folder=str(tmp_path / "gone")))
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize("wait", [lambda job: job.result(), lambda job: list(job.logs(follow=True))])
def test_a_job_that_is_gone_is_not_waited_for_and_not_made_anew(tmp_path: Path, wait: Callable[[Any], Any]) -> None:
    with pytest.raises(NoSuchJob, match="gone"):
        wait(prefect_tpu.Job(name="gone", folder=str(tmp_path / "gone")))
    assert not (tmp_path / "gone").exists()
