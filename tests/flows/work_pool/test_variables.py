"""The form of a pool: flat, explained, and with room for what `flow.deploy` and the issue tracker's words ask for."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.flows.work_pool.configuration import TpuSliceConfiguration
from prefect_tpu.flows.work_pool.variables import TpuSliceVariables
from prefect_tpu.infra.job import SliceJob

FIELDS: dict[str, dict[str, Any]] = TpuSliceVariables.model_json_schema()["properties"]
ASKED_FOR = {
    *("accelerator", "fallback_accelerators", "slices", "backend", "cluster", "fallback_clusters", "zones"),
    *("make_pools", "capacity", "image", "namespace", "queue", "priority_class", "service_account", "env", "secrets"),
    *("volumes", "cpu", "memory", "output", "provision_timeout", "run_timeout", "stall_timeout", "grace"),
    *("max_preemptions", "command", "labels", "mesh", "profile"),
}
OF_PREFECT = {"name", "env", "labels", "command"}  # what it has itself, nulls and all


@pytest.mark.parametrize("name", FIELDS)
def test_each_field_is_explained_and_has_a_default(name: str) -> None:
    field = FIELDS[name]
    assert field["description"][0].isupper() and field["description"].endswith(".")
    assert field["title"] and "default" in field


@pytest.mark.parametrize("name", sorted(FIELDS.keys() - OF_PREFECT))
def test_each_field_of_ours_is_plain_and_needs_no_null(name: str) -> None:
    field = FIELDS[name]
    assert field["type"] in ("string", "integer", "number", "boolean", "array", "object")
    assert field["default"] is not None and "$ref" not in field


def test_what_people_look_for_is_there() -> None:
    assert FIELDS.keys() >= ASKED_FOR
    assert next(iter(FIELDS)) == "accelerator"


def test_choices_and_limits_are_the_form_s_to_check() -> None:
    assert FIELDS["backend"]["enum"] == ["", "local", "jobset", "pathways"]
    assert "spot" in FIELDS["capacity"]["enum"]
    assert FIELDS["slices"]["minimum"] == 1 and FIELDS["grace"]["exclusiveMinimum"] == 0


def test_what_nobody_says_is_as_jobs_have_it() -> None:
    unasked = SliceJob.__dataclass_fields__
    for name in ("provision_timeout", "stall_timeout", "join_timeout", "grace", "orphan_after", "max_preemptions"):
        assert FIELDS[name]["default"] == unasked[name].default


def test_every_field_reaches_the_configuration() -> None:
    lines = TpuSliceConfiguration.json_template()
    assert lines == {name: f"{{{{ {name} }}}}" for name in FIELDS}
