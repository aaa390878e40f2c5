"""Which taints of a node does a pod tolerate? As the scheduler and the autoscaler look at it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def is_tolerated(taint: Mapping[str, str], tolerations: Iterable[Mapping[str, str]]) -> bool:
    return any(_tolerates(one, taint) for one in tolerations)


def _tolerates(toleration: Mapping[str, str], taint: Mapping[str, str]) -> bool:
    if toleration.get("key") not in (None, taint["key"]) or toleration.get("effect") not in (None, taint["effect"]):
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
