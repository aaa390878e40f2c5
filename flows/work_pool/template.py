"""What is the base job template of a pool, and how does one made by an older version become one of now?

A pool keeps the template that it was made with: upgrading the package changes none. So each of ours says which version
made it and how its fields were then, and what differs from that is what a person changed. That is kept; the rest is
brought up to date.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from pydantic import ValidationError

from prefect_tpu.flows.work_pool.configuration import TpuSliceConfiguration
from prefect_tpu.flows.work_pool.variables import TpuSliceVariables
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job_checks import nearest, shown
from prefect_tpu.infra.pods import in_pods

MARK = "x-prefect-tpu"  # in the schema of the variables, where JSON Schema has room for words of others
_HASH_DIGITS = 12
Template = dict[str, Any]
Schema = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference that an update makes, or finds and leaves.

    what: `added`, `renewed`, `removed`, `kept` or `lost`.
    name: of the variable, or of the line of the job configuration.
    why: for people.
    """

    what: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.what:<8}{self.name}: {self.why}"

    def to_json(self) -> dict[str, str]:
        return {"what": self.what, "name": self.name, "why": self.why}


def base_job_template(defaults: Mapping[str, Any] | None = None) -> Template:
    """The template of this version; defaults: what its pool has in place of some of ours."""
    variables = TpuSliceVariables.model_json_schema()
    properties: dict[str, Schema] = variables["properties"]
    mark = {"version": version(), "fields": {name: fingerprint(field) for name, field in properties.items()}}
    for name, value in (defaults or {}).items():
        properties[name]["default"] = value
    schema = {"type": "object", "properties": properties, MARK: mark}
    return {"job_configuration": TpuSliceConfiguration.json_template(), "variables": schema}


def check_defaults(defaults: Mapping[str, Any]) -> None:
    """Raise `UsageError` for a default that no run could have, or two that contradict each other."""
    known = TpuSliceVariables.model_fields
    for name, value in defaults.items():
        if name not in known:
            hint = nearest(name, known) or f"It has: {', '.join(known)}."
            raise UsageError(f"A tpu-slice pool has no variable {name!r}. {hint}")
        if (why := refusal(name, value)) is not None:
            raise UsageError(f"{name} is {shown(value)}: {why}.")
    asked = TpuSliceConfiguration(**defaults)
    said = asked.said_of_pods
    is_local = asked.backend == "local" or not (asked.backend or said)
    in_pods(asked.backend or None, said if is_local else {"image": "any", **said})  # deployments may bring their own
    for accelerator in (asked.accelerator, *asked.fallback_accelerators):
        resolve(accelerator)


def version() -> str:
    """Of this package."""
    return metadata.version("prefect-tpu")


def fingerprint(field: Schema) -> str:
    """Tells whether a person changed a field: its words, its type, its default."""
    return hashlib.sha256(json.dumps(field, sort_keys=True).encode()).hexdigest()[:_HASH_DIGITS]


def made_by(template: Template) -> str | None:
    """The version that made a template; None of one made by hand."""
    found = _mark(template).get("version")
    return found if isinstance(found, str) else None


def updated(old: Template) -> tuple[Template, tuple[Change, ...]]:
    """The template of this version with what a person changed in the old one, and what that changes."""
    new = base_job_template()
    changes = [*_merge_variables(old, new), *_merge_configuration(old, new)]
    return new, tuple(changes)


def _mark(template: Template) -> dict[str, Any]:
    found = template.get("variables", {}).get(MARK)
    return found if isinstance(found, dict) else {}


def _merge_variables(old: Template, new: Template) -> Iterator[Change]:
    before: dict[str, Schema] = old.get("variables", {}).get("properties", {})
    now: dict[str, Schema] = new["variables"]["properties"]
    was: Mapping[str, str] = _mark(old).get("fields", {})
    for name, field in list(now.items()):
        if name not in before:
            yield Change(what="added", name=name, why="it is new")
        elif before[name] != field:
            now[name], change = _merged(name, before[name], field, was.get(name))
            yield change
    for name, field in before.items():
        if name in now:
            continue
        if was.get(name) == fingerprint(field):
            yield Change(what="removed", name=name, why="prefect-tpu has it no more")
        else:
            now[name] = copy.deepcopy(field)
            yield Change(what="kept", name=name, why="it is none of prefect-tpu's, which does not read it")
    others = {name: value for name, value in old.get("variables", {}).items() if name not in new["variables"]}
    new["variables"].update(copy.deepcopy({n: v for n, v in others.items() if n not in ("title", "description")}))


def _merged(name: str, old: Schema, new: Schema, was: str | None) -> tuple[Schema, Change]:
    """One field: as it is now, with the default, or all of it, that a person gave it."""
    if was == fingerprint(old):
        return new, Change(what="renewed", name=name, why=_difference(old, new))
    default = old.get("default", new.get("default"))
    if (why := refusal(name, default)) is not None:
        return new, Change(what="lost", name=name, why=f"its default {_short(default)} is not allowed any more: {why}")
    mine = {**new, "default": default} if "default" in old else new
    if isinstance(chosen := old.get("enum"), list) and chosen != new.get("enum"):
        mine = {**mine, "enum": [value for value in chosen if value in new.get("enum", chosen)]}
    if mine == new:
        return new, Change(what="renewed", name=name, why=_difference(old, new))
    return mine, Change(what="kept", name=name, why=f"the pool's own {_difference(new, mine)}")


def refusal(name: str, value: Any) -> str | None:
    """Why a default cannot be one; None where it can."""
    try:
        TpuSliceVariables.model_validate({name: value})
    except ValidationError as exc:
        return str(exc.errors()[0]["msg"])
    return None


def _merge_configuration(old: Template, new: Template) -> Iterator[Change]:
    """Lines that a person wrote otherwise stay: a value that no deployment shall change, say."""
    before: dict[str, Any] = old.get("job_configuration", {})
    now: dict[str, Any] = new["job_configuration"]
    for name, line in before.items():
        if name in now and line != now[name]:
            now[name] = copy.deepcopy(line)
            yield Change(what="kept", name=f"job_configuration.{name}", why=f"the pool's own {_short(line)}")
        elif name not in now and line != f"{{{{ {name} }}}}":
            now[name] = copy.deepcopy(line)
            yield Change(what="kept", name=f"job_configuration.{name}", why="prefect-tpu does not read it")


def _difference(old: Schema, new: Schema) -> str:
    """`default 1 in place of 0`; of several, the names alone."""
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    if keys == ["default"]:
        return f"default {_short(new.get('default'))} in place of {_short(old.get('default'))}"
    return ", ".join(keys)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
