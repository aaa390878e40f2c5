"""Which quotas count for which slice, against what people saw at Google."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from quota_catalogue import CATALOGUE, FAMILIES

from prefect_tpu.infra.accelerators import curated_names, resolve
from prefect_tpu.infra.gcp.quota_table import PREEMPTIBLE, STANDARD, Quotas, ways

V5E, V5P, FAMILY = "TPU-LITE-PODSLICE-V5", "TPU-V5P", "TPUS-PER-TPU-FAMILY-per-project-region"


def ids(name: str, capacity: str) -> list[list[str]]:
    return [[quota.id for quota in way] for way in ways(resolve(name), capacity)]


def both(name: str) -> list[str]:
    return [f"{name}-per-project-region", f"{name}-per-project-zone"]


@pytest.mark.parametrize(
    ("name", "standard", "preemptible"),
    [
        ("v3-8", [FAMILY], []),
        ("v3-32", [FAMILY], []),
        ("v4-8", ["TPU-PODSLICE-V4-per-project-region"], ["PREEMPTIBLE-TPU-PODSLICE-V4-per-project-region"]),
        ("v5e-16", both(V5E), [f"PREEMPTIBLE-{V5E}-per-project-zone"]),
        ("v5p-32", both(V5P), [f"PREEMPTIBLE-{V5P}-per-project-zone"]),
        ("v6e-16", [FAMILY], both("PREEMPTIBLE-TPU-V6E")),
        ("tpu7x-128", [FAMILY], []),
        ("tpu7-128", [], []),
        ("v2-8", [], []),
    ],
)
def test_every_generation_has_its_quotas_or_none_that_is_known(
    name: str, standard: list[str], preemptible: list[str]
) -> None:
    assert ids(name, "on-demand") == [standard]
    assert ids(name, "spot") == [preemptible]
    assert ids(name, "flex-start") == ids(name, "queue") == [preemptible, standard]


def test_every_tpu_of_the_curated_table_is_known_but_those_that_nobody_saw() -> None:
    shapes = [resolve(name) for name in curated_names() if resolve(name).platform == "tpu"]
    unknown = {shape.generation for shape in shapes if ways(shape, "on-demand") == ((),)}
    assert unknown == {"v2", "tpu7"}


@pytest.mark.parametrize("table", [STANDARD, PREEMPTIBLE])
def test_what_is_asked_for_is_what_google_knows(table: Mapping[str, Quotas]) -> None:
    for quota in (quota for quotas in table.values() for quota in quotas):
        known = CATALOGUE[quota.id]
        assert quota.scope == known.dimensions[0]
        assert (quota.family in FAMILIES) == ("tpu_family" in known.dimensions)


def test_families_are_told_apart() -> None:
    named = {name: ways(resolve(name), "on-demand")[0][0].family for name in ("v3-8", "v3-32", "v6e-8", "tpu7x-8")}
    assert named == {"v3-8": "CT3", "v3-32": "CT3P", "v6e-8": "CT6E", "tpu7x-8": "tpu7x"}
