"""A space says which values a parameter may have; what is wrong names the parameter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.sweep.space import Choice, Span, check_point, grid, parse, sample

SPACE = {
    "lr": {"low": 1e-4, "high": 1e-1, "log": True},
    "width": [64, 128],
    "depth": {"low": 1, "high": 4, "step": 1},
    "drop": {"low": 0, "high": 0.5, "step": 0.25},
}


def test_a_space_is_spans_and_choices() -> None:
    space = parse(json.loads(json.dumps(SPACE)))
    assert space["width"] == Choice(values=(64, 128))
    assert space["lr"] == Span(low=1e-4, high=1e-1, log=True)
    assert [space["depth"].at(index) for index in range(space["depth"].count or 0)] == [1, 2, 3, 4]
    assert [space["drop"].at(index) for index in range(space["drop"].count or 0)] == [0.0, 0.25, 0.5]
    assert isinstance(space["depth"].at(0), int) and isinstance(space["drop"].at(0), float)
    assert sample(space) == {"lr": 1e-4, "width": 64, "depth": 1, "drop": 0}


def test_a_span_ends_at_its_last_step() -> None:
    assert parse({"x": {"low": 1, "high": 6, "step": 2}})["x"] == Span(low=1, high=5, step=2)
    assert parse({"x": {"low": 0.1, "high": 0.35, "step": 0.1}})["x"] == Span(low=0.1, high=0.3, step=0.1)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (None, "space is None: name the parameters to try"),
        ({}, "space is {}"),
        ({"x": 3}, r"space\['x'\] is 3: give a list of values, or an object"),
        ({"x": []}, r"space\['x'\] is empty"),
        ({"x": [1, 1.0]}, r"space\['x'\] has 1.0 twice"),
        ({"x": [1, True]}, r"space\['x'\] has True, which samplers do not tell from another"),
        ({"x": [[1]]}, r"space\['x'\] has \[1\]: its values are texts, finite numbers"),
        ({"x": [float("nan")]}, r"space\['x'\] has nan"),
        ({"x": {"low": 1}}, r"space\['x'\] has no 'high'"),
        ({"x": {"hi": 1}}, r"space\['x'\] has no key 'hi'. Did you mean 'high'"),
        ({"x": {"low": "1", "high": 2}}, r"space\['x'\]\['low'\] is '1': give a finite number"),
        ({"x": {"low": True, "high": 2}}, r"space\['x'\]\['low'\] is True"),
        ({"x": {"low": 1, "high": float("inf")}}, r"space\['x'\]\['high'\] is inf"),
        ({"x": {"low": 1, "high": 10**400}}, r"space\['x'\]\['high'\] is 1000.*: give a finite number"),
        ({"x": {"low": -1.7e308, "high": 1.7e308}}, "to 1.7e.308, which is too far"),
        ({"x": {"low": 0, "high": 10**30, "step": 1}}, "has steps of 1 from 0 to 1000.* do not tell apart"),
        ({"x": {"low": 0, "high": 1e30, "step": 0.1}}, "has steps of 0.1 from 0 to 1e.30, which samplers"),
        ({"x": {"low": -(2**60), "high": 0, "step": 1}}, r"space\['x'\] has steps of 1 from -1152921504606846976 to 0"),
        ({"x": {"low": 3, "high": 2}}, r"space\['x'\] goes from 3 to 2"),
        ({"x": {"low": 1, "high": 2, "step": 0}}, r"space\['x'\]\['step'\] is 0: give a number above 0"),
        ({"x": {"low": 0, "high": 2, "log": True}}, r"space\['x'\]\['low'\] is 0: with 'log' it is above 0"),
        ({"x": {"low": 1, "high": 2, "log": "yes"}}, r"space\['x'\]\['log'\] is 'yes'"),
        ({"x": {"low": 1.0, "high": 2, "log": True, "step": 1}}, r"space\['x'\] has 'log' and a step of 1"),
    ],
)
def test_what_is_no_space_names_the_parameter(said: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse(said)


@pytest.mark.parametrize(
    ("point", "says"),
    [
        ([], r"first\[0\] is \[\]: give parameters by name"),
        ({"widht": 64}, r"first\[0\] has 'widht', which the space has not. Did you mean 'width'"),
        ({"width": 65}, r"first\[0\]\['width'\] is 65, which is not one of 64, 128"),
        ({"width": True}, r"first\[0\]\['width'\] is True"),
        ({"lr": 1.0}, r"first\[0\]\['lr'\] is 1.0, which is not 0.0001 to 0.1"),
        ({"depth": 1.5}, r"first\[0\]\['depth'\] is 1.5, which is not 1 to 4 in steps of 1"),
        ({"depth": "2"}, r"first\[0\]\['depth'\] is '2'"),
    ],
)
def test_a_point_outside_is_refused_by_name(point: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_point("first[0]", parse(SPACE), point)


def test_a_point_is_as_the_space_has_it() -> None:
    found = check_point("first[0]", parse(SPACE), {"width": 64.0, "depth": 2.0, "lr": 0.1})
    assert found == {"width": 64, "depth": 2, "lr": 0.1}
    assert [type(value) for value in found.values()] == [int, int, float]


def test_a_grid_has_every_point_once() -> None:
    small = {name: SPACE[name] for name in ("width", "depth")}
    points = list(grid(parse(small)))
    assert points[:2] == [{"width": 64, "depth": 1}, {"width": 64, "depth": 2}]
    assert len({tuple(point.items()) for point in points}) == len(points) == 8


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (SPACE, r"space\['lr'\] has every number from 0.0001 to 0.1, which is no grid: give it a 'step' or a list"),
        ({"x": {"low": 1, "high": 20_000, "step": 1}}, "The grid has 20000 points, at most 10000 may be"),
    ],
)
def test_what_is_no_grid_says_why(said: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        grid(parse(said))


@given(st.integers(-50, 50), st.integers(0, 50), st.sampled_from([1, 2, 0.1, 0.25, 3.5]))
def test_whatever_a_span_counts_is_found_in_it(low: int, width: int, step: float) -> None:
    span = parse({"x": {"low": low, "high": low + width, "step": step}})["x"]
    assert span.count is not None
    for index in range(span.count):
        assert span.find(span.at(index)) == (span.at(index),)
    assert span.at(span.count - 1) <= low + width < span.at(span.count) + 1e-9
