"""Was a job of this name asked for differently before, and how does it differ?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

from prefect_tpu.infra.errors import Conflict
from prefect_tpu.infra.job import SETTINGS, Program, SliceJob
from prefect_tpu.infra.job_checks import cut
from prefect_tpu.infra.pods import PodSettings


def check_same(asked: SliceJob, stored: SliceJob, *, has_ended: bool = False) -> None:
    """Raise `Conflict`, saying what differs, where a job of this name was asked for differently.

    The `SETTINGS` of a job that has ended may differ.
    """
    differing = {name: what for name, what in _differing(asked, stored) if not (has_ended and name in SETTINGS)}
    if not differing:
        return
    rest = "Use the same values to continue it, or another name for a new job."
    if not has_ended and SETTINGS.issuperset(differing):
        rest = "It has not ended: use the same values, or stop it first; a job that has ended goes on with new ones."
    said = "; ".join(differing.values())
    raise Conflict(f"Job {asked.name!r} exists and was asked for differently: {said}. {rest}")


def _differing(asked: SliceJob, stored: SliceJob) -> Iterator[tuple[str, str]]:
    """(field, how it differs)"""
    asked = SliceJob.from_json(asked.to_json())  # as it would be stored: JSON turns tuples into lists
    for name in (f.name for f in fields(asked)):
        was, now = getattr(stored, name), getattr(asked, name)
        if was != now:
            yield name, "; ".join(_program_differences(was, now)) if name == "program" else _difference(name, was, now)


def _program_differences(stored: Program, asked: Program) -> list[str]:
    """Of two programs of one target another payload is other code; of different targets it goes without saying."""
    same_target = (stored.kind, stored.target) == (asked.kind, asked.target)
    found = [] if same_target else [_difference("program", stored.target, asked.target)]
    if stored.arguments != asked.arguments:
        found.append(_difference("arguments", stored.arguments, asked.arguments))
    if same_target and stored.payload != asked.payload:
        found.append("the program's code changed")
    return found + _difference_by_name("params", stored.params, asked.params)


def _difference(what: str, stored: Any, asked: Any) -> str:
    if what in ("data", "env"):  # content hashes tell nobody anything, and values of env tell too much
        changed = sorted(name for name in {**stored, **asked} if stored.get(name) != asked.get(name))
        return f"{what} {', '.join(map(repr, changed))} changed"
    if what == "pods":
        return "; ".join(_difference_by_name(what, _said(stored), _said(asked)))
    if isinstance(stored, dict) and isinstance(asked, dict):
        return "; ".join(_difference_by_name(what, stored, asked))
    return f"{what} was {_short(stored)} and is {_short(asked)}"


def _difference_by_name(what: str, stored: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    return [
        f"{what} {name!r} was {_short(stored[name]) if name in stored else 'not there'} and is"
        f" {_short(asked[name]) if name in asked else 'not there'}"
        for name in {**stored, **asked}
        if name not in stored or name not in asked or stored[name] != asked[name]
    ]


def _said(pods: PodSettings | None) -> dict[str, Any]:
    """What is not as it would be unasked; of hosts that are no pods, nothing."""
    if pods is None:
        return {}
    unasked = asdict(PodSettings(image=pods.image)) | {"image": None}
    return {name: value for name, value in asdict(pods).items() if value != unasked[name]}


def _short(value: Any) -> str:
    """As JSON, which is what a person wrote."""
    return cut(json.dumps(value))
