"""What is asked of a sweep is checked before anything is written, and a name stands for one sweep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import Conflict, UsageError
from prefect_tpu.infra.storage import LocalStorage, Storage
from prefect_tpu.infra.sweep.asked import Asked, check_free, enter, sweep_name_from_run


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "Digits"}, "Sweep name 'Digits' is not usable"),
        ({"name": "a" * 14}, "at most 12 of a-z"),
        ({"trials": 0}, "trials is 0: give a whole number, 1 at most 10000"),
        ({"trials": 20_000}, "trials is 20000"),
        ({"trials": True}, "trials is True"),
        ({"seed": -1}, "seed is -1: give a whole number, 0 or more"),
        ({"chips": 1.5}, "chips is 1.5"),
        ({"slices": 0}, "slices is 0"),
        ({"mode": "maximum"}, "mode is 'maximum'. Did you mean 'max'|mode is 'maximum'. It is one of: min, max"),
        ({"pruner": "mediam"}, "pruner is 'mediam'. Did you mean 'median'"),
        ({"sampler": "bayes"}, "sampler is 'bayes'. It is one of: tpe, random, grid"),
        ({"metric": ""}, "metric is ''"),
        ({"params": {"lr": 1}}, "params and space both have 'lr'"),
        ({"params": [1]}, r"params is \[1\]: give parameters by name"),
        ({"accelerators": ("v6e-17",)}, "Accelerator 'v6e-17'"),
        ({"accelerators": (3,)}, "Accelerator 3 is no text"),
        ({"accelerators": ("v6e-8",), "chips": 4}, "A trial on v6e-8 takes 8 chips, and chips is 4"),
        ({"accelerators": ("v6e-8",), "slices": 2, "chips": 8}, "takes 16 chips, and chips is 8"),
        ({"chips": 4, "first": ({"accelerator": "v6e-8"},)}, "A trial on v6e-8 takes 8 chips, and chips is 4"),
        ({"first": ({"lr": 0.1},)}, r"first\[0\] has no key 'lr'. It has: params, priority, accelerator."),
        ({"first": ({"prio": 1},)}, r"first\[0\] has no key 'prio'. Did you mean 'priority'"),
        ({"first": ({"priority": 10**400},)}, r"first\[0\]\['priority'\] is 1000.*: give a number"),
        ({"first": ({"priority": "high"},)}, r"first\[0\]\['priority'\] is 'high': give a number"),
        ({"first": ({"params": {"width": 3}},)}, r"first\[0\]\['params'\]\['width'\] is 3, which is not one of"),
        ({"first": (3,)}, r"first\[0\] is 3: give an object"),
        ({"first": ({"accelerator": 3},)}, r"first\[0\]\['accelerator'\] is 3"),
        ({"sampler": "grid"}, r"space\['lr'\] has every number"),
    ],
)
def test_what_cannot_be_carried_out_says_what_to_change(
    make_asked: Callable[..., Asked], changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        make_asked(**changes)


def test_points_come_by_their_priority_with_an_accelerator_of_their_own(make_asked: Callable[..., Asked]) -> None:
    asked = make_asked(
        accelerators=("v6e-4", "v6e-8"),
        first=(
            {"params": {"width": 64}},
            {"params": {"width": 128}, "priority": 2, "accelerator": "v6e-16"},
            {"priority": 1},
        ),
    )
    assert [point.params for point in asked.points] == [{"width": 128}, {}, {"width": 64}]
    assert [asked.chips_of(number) for number in range(5)] == [16, 8, 8, 8, 8]
    assert asked.budget == 16
    call = asked.call_of(0, {"width": 128, "lr": 0.01}, "/jobs")
    assert (call["name"], call["accelerator"], call["fallback_accelerators"]) == ("digits-0", "v6e-16", [])
    call = asked.call_of(1, {"width": 64, "lr": 0.01}, "/jobs")
    assert (call["accelerator"], call["fallback_accelerators"]) == ("v6e-4", ["v6e-8"])
    assert call["params"] == {"width": 64, "lr": 0.01}


def test_points_that_are_never_tried_take_no_chips(make_asked: Callable[..., Asked]) -> None:
    first = ({"accelerator": "v6e-4"}, {"accelerator": "v6e-8"}, {"accelerator": "v6e-256"})
    asked = make_asked(accelerators=("v6e-16",), trials=2, first=first, chips=8)
    assert asked.budget == 8 == make_asked(accelerators=("v6e-16",), trials=2, first=first).budget


def test_a_grid_is_tried_point_by_point_and_no_more(make_asked: Callable[..., Asked]) -> None:
    space = {"width": [64, 128], "depth": {"low": 1, "high": 2, "step": 1}}
    asked = make_asked(space=space, sampler="grid", trials=100, first=({"params": {"width": 128, "depth": 2}},))
    assert asked.count == 4
    assert make_asked(space=space, sampler="grid", first=({"priority": -1},)).priority_of(0) > asked.priority_of(1)
    assert [tuple(point.params.values()) for point in asked.points] == [(128, 2), (64, 1), (64, 2), (128, 1)]
    assert make_asked(space=space, sampler="grid", trials=3).count == 3


def test_the_same_sweep_goes_on_and_another_one_of_its_name_is_refused(
    make_asked: Callable[..., Asked], anywhere: Storage
) -> None:
    shared = {"env": {"TOKEN": "secret"}, "timing": {"grace": 1.0}, "data": {}}
    enter(anywhere, make_asked(shared=shared))
    enter(anywhere, make_asked(shared={**shared, "timing": {"grace": 2.0}}, chips=7))
    with pytest.raises(Conflict, match="Sweep 'digits' exists and was asked for differently: trials was 10 and is 11"):
        enter(anywhere, make_asked(shared=shared, trials=11))
    others = [
        ({"params": {"steps": 3}}, r'params was \{\} and is \{"steps": 3\}'),
        ({"mode": "max"}, 'mode was "min" and is "max"'),
        ({"space": {"lr": [0.1]}}, "space was "),
        ({"first": ({"params": {"lr": 0.1}},)}, r"first was \[\] and is"),
    ]
    for changes, says in others:
        with pytest.raises(Conflict, match=says):
            enter(anywhere, make_asked(shared=shared, **changes))
    with pytest.raises(Conflict, match="differently: env changed") as refused:
        enter(anywhere, make_asked(shared={**shared, "env": {"TOKEN": "other"}}))
    assert "secret" not in str(refused.value)


def test_a_name_is_made_of_a_run() -> None:
    assert sweep_name_from_run("0192f3a4-1111-7abc-8def-0123456789ab") == "s-123456789ab"


def test_a_model_and_a_sweep_have_different_names(tmp_path: Path) -> None:
    jobs = LocalStorage(tmp_path)
    check_free(jobs, "digits")
    jobs.put(f"{layout.model('digits')}/{layout.model_candidate(1)}", b"{}")
    check_free(jobs, "digit")
    with pytest.raises(Conflict, match="A model that is trained again and again is called 'digits' in .*another name"):
        check_free(jobs, "digits")
