"""What the form of a schedule sends, and what its author meant."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.flows.schedule_form import filled_in, is_wrapped

EMPTY = {"__prefect_kind": "json"}
DEPLOYED: dict[str, Any] = {
    "data": {"digits": "tonight.npz"},
    "params": {"seed": None},
    "max_age_days": 7.0,
    "training": {"env": {"A": "1"}, "timing": {"deadline": 60.0}},
}


@pytest.mark.parametrize("parameters", [{}, DEPLOYED, {"data": {}}, {"max_age_days": None}, {"first": [{"x": 1}]}])
def test_other_parameters_are_left_alone(parameters: dict[str, Any]) -> None:
    assert not is_wrapped(parameters)


def test_what_nobody_filled_in_is_as_the_deployment_has_it() -> None:
    sent = {
        **DEPLOYED, "model": "digits", "data": EMPTY, "max_age_days": None,
        "training": {"env": EMPTY, "timing": {"deadline": None}, "slices": 2},
    }  # fmt: skip
    assert is_wrapped(sent)
    assert filled_in(sent, DEPLOYED) == {
        **DEPLOYED, "model": "digits", "training": {**DEPLOYED["training"], "slices": 2},
    }  # fmt: skip


def test_what_was_filled_in_is_read() -> None:
    sent = {"data": {**EMPTY, "value": '{"digits": "other.npz"}'}, "pods": {"labels": {**EMPTY, "value": "{}"}}}
    assert filled_in(sent, DEPLOYED) == {**DEPLOYED, "data": {"digits": "other.npz"}, "pods": {"labels": {}}}


def test_without_a_deployment_such_a_field_is_not_there() -> None:
    sent = {"program": "x.py:main", "params": EMPTY, "pods": {"secrets": EMPTY, "zones": ["a"]}}
    assert filled_in(sent, {}) == {"program": "x.py:main", "pods": {"zones": ["a"]}}


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="Parameter data of the schedule is no JSON"):
        filled_in({"data": {**EMPTY, "value": "{digits}"}}, {})
