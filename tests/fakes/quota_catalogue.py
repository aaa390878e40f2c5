"""Which quotas of Compute Engine does Google know? As people who looked have reported it, not as our table says.

Ids, dimensions, and how much there is where nobody granted any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

REGIONS = ("asia-northeast1", "europe-west4", "us-central1", "us-central2", "us-east5", "us-south1", "us-west4")
ZONES = tuple(f"{region}-{letter}" for region in REGIONS for letter in "abc")
FAMILIES = ("CT3", "CT3P", "CT6E", "tpu7x")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A quota: what it measures, what it is told apart by, and how much there is where nobody granted any.

    default: None where it has no entries at all before something is granted.
    """

    metric: str
    dimensions: tuple[str, ...]
    default: int | None = 0

    @property
    def places(self) -> tuple[str, ...]:
        return REGIONS if "region" in self.dimensions else ZONES


def _known(metric: str, *dimensions: str, default: int | None = 0) -> Known:
    return Known(metric=f"compute.googleapis.com/{metric}", dimensions=dimensions, default=default)


# There is no TPU-V6E-per-project-*, and nothing of these is a quota of tpu.googleapis.com.
CATALOGUE: Mapping[str, Known] = {
    "TPUS-PER-TPU-FAMILY-per-project-region": _known("tpus_per_tpu_family", "region", "tpu_family"),
    "PREEMPTIBLE-TPU-V6E-per-project-region": _known("preemptible_tpu_v6e", "region", default=1536),
    "PREEMPTIBLE-TPU-V6E-per-project-zone": _known("preemptible_tpu_v6e", "zone", default=None),
    "TPU-V5P-per-project-region": _known("tpu_v5p", "region"),
    "TPU-V5P-per-project-zone": _known("tpu_v5p", "zone"),
    "PREEMPTIBLE-TPU-V5P-per-project-zone": _known("preemptible_tpu_v5p", "zone"),
    "TPU-LITE-PODSLICE-V5-per-project-region": _known("tpu_lite_podslice_v5", "region"),
    "TPU-LITE-PODSLICE-V5-per-project-zone": _known("tpu_lite_podslice_v5", "zone"),
    "PREEMPTIBLE-TPU-LITE-PODSLICE-V5-per-project-zone": _known("preemptible_tpu_lite_podslice_v5", "zone"),
    "TPU-PODSLICE-V4-per-project-region": _known("tpu_podslice_v4", "region"),
    "PREEMPTIBLE-TPU-PODSLICE-V4-per-project-region": _known("preemptible_tpu_podslice_v4", "region"),
}
METRICS = frozenset(known.metric for known in CATALOGUE.values())
