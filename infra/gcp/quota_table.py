"""Which quotas of Compute Engine must allow a slice?

GKE's TPUs draw on `compute.googleapis.com`, in chips, and not on the Cloud TPU API. Ids follow no rule from one
generation to the next, so they stand here one by one. Sources: ids read from Cloud Quotas by people who reported them
(collected 2026-08 to 2026-11), for v4 the name of the metric in compute/v1/compute.proto; which of them a capacity
draws on, https://cloud.google.com/compute/docs/instances/provisioning-models. What is not here is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prefect_tpu.infra.accelerators import Slice

SERVICE = "compute.googleapis.com"
PAGE = "https://console.cloud.google.com/iam-admin/quotas"  # where more is asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One quota: its id in Cloud Quotas, what it counts in, and the family where it counts several.

    scope: `region` or `zone`; both may hold for one slice, and one may be zero while the other is not.
    """

    id: str
    scope: str
    family: str | None = None


Quotas = tuple[Quota, ...]


def _both(name: str) -> Quotas:
    return tuple(Quota(id=f"{name}-per-project-{scope}", scope=scope) for scope in ("region", "zone"))


def _zone(name: str) -> Quotas:
    return (Quota(id=f"{name}-per-project-zone", scope="zone"),)


def _region(name: str) -> Quotas:
    return (Quota(id=f"{name}-per-project-region", scope="region"),)


def _family(name: str) -> Quotas:
    return (Quota(id="TPUS-PER-TPU-FAMILY-per-project-region", scope="region", family=name),)


# GKE's label of the nodes → quotas of on-demand slices. There is no TPU-V6E-per-project-*.
STANDARD: Mapping[str, Quotas] = {
    "tpu-v3-device": _family("CT3"),
    "tpu-v3-slice": _family("CT3P"),
    "tpu-v4-podslice": _region("TPU-PODSLICE-V4"),
    "tpu-v5-lite-podslice": _both("TPU-LITE-PODSLICE-V5"),
    "tpu-v5p-slice": _both("TPU-V5P"),
    "tpu-v6e-slice": _family("CT6E"),
    "tpu7x": _family("tpu7x"),
}
# GKE's label of the nodes → quotas of spot slices.
PREEMPTIBLE: Mapping[str, Quotas] = {
    "tpu-v4-podslice": _region("PREEMPTIBLE-TPU-PODSLICE-V4"),
    "tpu-v5-lite-podslice": _zone("PREEMPTIBLE-TPU-LITE-PODSLICE-V5"),
    "tpu-v5p-slice": _zone("PREEMPTIBLE-TPU-V5P"),
    "tpu-v6e-slice": _both("PREEMPTIBLE-TPU-V6E"),
}
_TABLES = {"spot": (PREEMPTIBLE,), "flex-start": (PREEMPTIBLE, STANDARD), "queue": (PREEMPTIBLE, STANDARD)}


def ways(shape: Slice, capacity: str) -> tuple[Quotas, ...]:
    """Sets of quotas of which one is enough; an empty set is a way that is not known.

    Flex-start, which queued provisioning is too, takes of the preemptible quota, and of the standard one where there
    is too little.
    """
    label = shape.gke_accelerator or ""
    return tuple(table.get(label, ()) for table in _TABLES.get(capacity, (STANDARD,)))
