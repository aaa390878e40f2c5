"""The form of each flow is flat, typed and explained, as Prefect makes it of the flow's own words."""

from __future__ import annotations

from typing import Any

import pytest
from prefect.utilities.callables import parameter_schema

from prefect_tpu.flows.form import Pods, Timing, Training
from prefect_tpu.flows.sweep import sweep
from prefect_tpu.flows.train import train

GROUPS = {"timing": Timing, "training": Training, "pods": Pods}


@pytest.mark.parametrize(("flow", "groups"), [(train, ["timing", "pods"]), (sweep, ["training", "pods"])])
def test_every_field_has_one_kind_and_a_sentence(flow: Any, groups: list[str]) -> None:
    schema = parameter_schema(flow.fn).model_dump()
    fields = schema["properties"]
    assert [name for name, field in fields.items() if "$ref" in field or "allOf" in field] == groups
    assert not [name for name, field in fields.items() if "anyOf" in field]
    for group in groups:
        fields = {**fields, **schema["definitions"][GROUPS[group].__name__]["properties"]}
    for name, field in fields.items():
        said = field["description"]
        assert said[0].isupper() and said.endswith("."), f"{name}: {said}"
    assert not [name for name in Pods.model_fields if "anyOf" in fields[name]]
