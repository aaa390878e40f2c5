"""Is the object that has this name ours?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prefect_tpu.infra.gcp.ownership import OUTPUT

Object = Mapping[str, Any]


def other_owner(wanted: Object, found: Object, labels: Iterable[str]) -> str | None:
    """Whose the found object is, in words, where it is not whose the wanted one is; `None` where it is ours.

    labels: the names of the labels that say whose an object is. Owner references of the wanted one must be there too.
    """
    mine, theirs = _labels(wanted), _labels(found)
    if mine != theirs and (output := _output(found)) not in (None, _output(wanted)):
        return f"the job in {output}"  # of the same name, below another output
    foreign = [f"{label}={theirs.get(label, '')!r}" for label in labels if theirs.get(label) != mine.get(label)]
    if foreign:
        return " and ".join(foreign)
    missing = _owners(wanted).keys() - _owners(found).keys()
    return (" and ".join(_owners(found).values()) or "nobody") if missing else None


def is_going(found: Object) -> bool:
    """Whether it was deleted and only waits for its end."""
    return bool(found["metadata"].get("deletionTimestamp"))


def _output(manifest: Object) -> str | None:
    annotations: Mapping[str, str] = manifest["metadata"].get("annotations") or {}
    return annotations.get(OUTPUT)


def _labels(manifest: Object) -> Mapping[str, str]:
    return manifest["metadata"].get("labels") or {}


def _owners(manifest: Object) -> dict[str, str]:
    owners = manifest["metadata"].get("ownerReferences") or ()
    return {owner["uid"]: f"{owner['kind']} {owner['name']!r} ({owner['uid']})" for owner in owners}
