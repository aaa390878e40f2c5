"""What lies beside a state? What the program said, and on what it was saved; all in the seal of its checkpoint."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra import retention
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.retention import Rule
from prefect_tpu.infra.training import agreement, leaves

MOST_SIDE_BYTES = 256 * 2**10  # each prune reads the seals
SIDE, PARTLY = "side", "partly"  # what a seal calls them


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A checkpoint that was read: which one, and what lay beside its state.

    step: that was saved.
    attempt: that saved it; outside a job the number of the run's folder.
    side: what the program gave as `checkpoints(side=…)`; None where it gave nothing.
    metrics: what `save` was given with the step.
    mesh: the state's axes with their sizes; empty where it lay on no mesh.
    devices, hosts: how many there were, over all slices.
    versions: of `python`, `prefect_tpu` and what wrote it: `jax` and `orbax`, or `torch`.
    """

    step: int
    attempt: int
    side: Any
    metrics: dict[str, float]
    mesh: dict[str, int]
    devices: int | None
    hosts: int | None
    versions: dict[str, str]


def on_jax(state: Any) -> dict[str, Any]:
    """On what JAX holds a state, and what writes it."""
    import jax
    import orbax.checkpoint as ocp  # type: ignore[import-untyped]

    versions = {"jax": jax.__version__, "orbax": ocp.__version__}
    return {"devices": jax.device_count(), "mesh": leaves.mesh_of(state), "versions": versions}


def facts(
    on: Mapping[str, Any],
    *,
    side: Mapping[str, Any],
    rule: Rule | None,
    metrics: Mapping[str, float],
    is_partly: bool,
) -> dict[str, Any]:
    """All that a seal says of a state besides its files.

    on: the devices and the mesh that hold it, and the versions of what writes it.
    side: as `said` has it.
    is_partly: whether the run that saves it restored a part only.
    """
    versions = {
        "python": platform.python_version(),
        **on["versions"],
        # Nothing of ours imports the public face, but whoever runs this has.
        "prefect_tpu": getattr(sys.modules["prefect_tpu"], "__version__", ""),
    }
    return {
        **on,
        "hosts": agreement.peers(),
        "versions": versions,
        **side,
        **retention.facts(rule, metrics),
        **({PARTLY: True} if is_partly else {}),
    }


def said(call: str, side: Any) -> dict[str, Any]:
    """What the program says, as a seal says it: a copy, for it may change. call: what the program wrote.

    Raises `UsageError` for what is no JSON, or too much.
    """
    if side is None:
        return {}
    try:
        raw = json.dumps(side, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise UsageError(f"{call}(side=…) is no JSON: {exc}. Give numbers, text, lists and dicts of them.") from exc
    if len(raw) > MOST_SIDE_BYTES:
        raise UsageError(
            f"{call}(side=…) is {len(raw)} bytes of JSON, {MOST_SIDE_BYTES} at most: write what is larger into a"
            " file in prefect_tpu.info().output, or keep it in the state."
        )
    return {SIDE: json.loads(raw)}


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Metrics as numbers; waits for those that are still computed, and leaves out what a later step was given."""
    return {name: number(name, value) for name, value in metrics.items() if not _is_gone(value)}


def number(name: str, value: Any) -> float:
    """A metric as a number; waits for it."""
    try:
        return float(value.detach() if hasattr(value, "detach") else value)  # a torch loss is part of a graph
    except (TypeError, ValueError) as exc:
        raise UsageError(
            f"save(): the metric {name!r} is no number but a {type(value).__name__}: give one number each."
        ) from exc


def _is_gone(value: Any) -> bool:
    return hasattr(value, "is_deleted") and bool(value.is_deleted())


def restored(point: RestorePoint, sealed: Mapping[str, Any]) -> Restored:
    """What a seal says of a checkpoint; what an older one does not say is empty."""
    return Restored(
        step=point.step,
        attempt=point.attempt,
        side=sealed.get(SIDE),
        metrics=retention.metrics_of(sealed),
        mesh=sealed.get("mesh") or {},
        devices=sealed.get("devices"),
        hosts=sealed.get("hosts"),
        versions=sealed.get("versions") or {},
    )
