"""Templates of pools that older versions, or people, made: what was changed on purpose stays, the rest is of now."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.flows.work_pool.template import (
    MARK,
    Template,
    base_job_template,
    check_defaults,
    fingerprint,
    made_by,
    updated,
    version,
)
from prefect_tpu.infra.errors import UsageError

ROOT = Path(__file__).parents[3]


def of_an_older_version() -> Template:
    """One that had other words, another default, no `mesh` and `profile` yet, and a field that is gone since."""
    template = base_job_template()
    fields = template["variables"]["properties"]
    for name in ("mesh", "profile"):
        del fields[name], template["job_configuration"][name]
    fields["grace"] |= {"default": 10.0, "description": "As it was told then."}
    fields["backend"]["enum"] = ["", "local", "jobset", "xpk"]
    fields["steps"] = {"type": "integer", "title": "Steps", "default": 3}
    template["job_configuration"]["steps"] = "{{ steps }}"
    fingerprints = {name: fingerprint(field) for name, field in fields.items()}
    template["variables"][MARK] = {"version": "0.0.9", "fields": fingerprints}
    return template


def what_changes(template: Template) -> dict[str, str]:
    return {change.name: change.what for change in updated(template)[1]}


def field(template: Template, name: str) -> dict[str, Any]:
    found: dict[str, Any] = template["variables"]["properties"][name]
    return found


def test_one_of_now_stays_as_it_is() -> None:
    assert updated(base_job_template()) == (base_job_template(), ())


def test_an_older_one_that_nobody_changed_becomes_one_of_now() -> None:
    new, _ = updated(of_an_older_version())
    assert new == base_job_template() and made_by(new) == version()
    assert what_changes(of_an_older_version()) == {
        "mesh": "added", "profile": "added", "grace": "renewed", "backend": "renewed", "steps": "removed",
    }  # fmt: skip


def test_what_a_person_changed_in_an_older_one_stays_with_the_words_of_now() -> None:
    old = of_an_older_version()
    field(old, "grace")["default"] = 20.0
    field(old, "image")["default"] = "trainer:1"
    field(old, "capacity")["enum"] = ["", "spot"]
    field(old, "steps")["default"] = 5
    old["job_configuration"]["namespace"] = "ml"
    new, _ = updated(old)
    assert field(new, "grace")["default"] == 20.0
    assert field(new, "grace")["description"] == field(base_job_template(), "grace")["description"]
    assert field(new, "image")["default"] == "trainer:1"
    assert field(new, "capacity")["enum"] == ["", "spot"]
    assert field(new, "steps")["default"] == 5
    assert new["job_configuration"]["namespace"] == "ml"
    kept = {name for name, what in what_changes(old).items() if what == "kept"}
    assert kept == {"grace", "image", "capacity", "steps", "job_configuration.namespace"}


def test_a_default_that_is_none_any_more_is_told_as_lost() -> None:
    old = of_an_older_version()
    field(old, "backend")["default"] = "xpk"
    new, changes = updated(old)
    assert field(new, "backend") == field(base_job_template(), "backend")
    (lost,) = [change for change in changes if change.what == "lost"]
    assert lost.name == "backend" and '"xpk"' in lost.why


def test_a_variable_of_a_person_s_own_stays_and_reaches_whatever_refers_to_it() -> None:
    old = base_job_template()
    old["variables"]["properties"]["team"] = {"type": "string", "default": "vision"}
    old["job_configuration"]["labels"] = {"team": "{{ team }}"}
    new, _ = updated(old)
    assert field(new, "team") == {"type": "string", "default": "vision"}
    assert new["job_configuration"]["labels"] == {"team": "{{ team }}"}
    assert what_changes(old) == {"team": "kept", "job_configuration.labels": "kept"}


def test_one_made_by_hand_gets_what_it_lacks_and_keeps_what_it_says() -> None:
    by_hand = {
        "job_configuration": {"command": "{{ command }}", "accelerator": "{{ accelerator }}", "cluster": "prod"},
        "variables": {
            "type": "object",
            "required": ["accelerator"],
            "properties": {"command": {"type": "string"}, "accelerator": {"type": "string", "default": "v6e-16"}},
        },
    }
    new, _ = updated(by_hand)
    assert made_by(by_hand) is None and made_by(new) == version()
    assert field(new, "accelerator")["default"] == "v6e-16"
    assert new["variables"]["required"] == ["accelerator"]
    assert new["job_configuration"]["cluster"] == "prod"
    assert new["job_configuration"].keys() == base_job_template()["job_configuration"].keys()


@pytest.mark.parametrize("old", [of_an_older_version(), {}, base_job_template({"image": "a:1"})])
def test_updated_twice_is_as_updated_once_and_the_old_one_is_left_alone(old: Template) -> None:
    before = copy.deepcopy(old)
    new, _ = updated(old)
    assert updated(new)[0] == new and old == before
    assert set(new["job_configuration"]) <= set(new["variables"]["properties"])  # else a server refuses it


def test_what_a_pool_is_made_with_counts_as_said_by_a_person() -> None:
    made = base_job_template({"backend": "jobset", "image": "trainer:1"})
    assert updated(made)[0] == made
    assert what_changes(made) == {"backend": "kept", "image": "kept"}


@pytest.mark.parametrize(
    ("defaults", "why"),
    [
        ({"acelerator": "v6e-16"}, "Did you mean 'accelerator'"),
        ({"backend": "xpk"}, "backend is 'xpk'"),
        ({"slices": 0}, "slices is 0"),
        ({"mesh": "wide"}, "mesh is 'wide': Mesh 'wide' cannot be read"),
        ({"profile": "skip=0"}, "profile is 'skip=0': Profile 'skip=0' records nothing"),
        ({"accelerator": "v6e-15"}, "v6e-16"),
        ({"backend": "local", "image": "trainer:1"}, "has no pods"),
        ({"memory": "much"}, "Kubernetes quantity"),
    ],
)
def test_defaults_that_no_run_could_have_are_refused(defaults: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_defaults(defaults)


def test_defaults_of_a_pool_may_leave_the_image_to_deployments() -> None:
    check_defaults({"backend": "jobset", "cluster": "block:training", "accelerator": "v6e-16"})
    check_defaults({"mesh": "{{ prefect.variables.mesh }}", "profile": "skip=10,steps=5"})
    check_defaults({})


@pytest.mark.parametrize("place", ["flows/work_pool", "deployments"])
def test_the_files_say_what_the_code_says(place: str) -> None:
    assert json.loads((ROOT / place / "base-job-template.json").read_text()) == base_job_template()
