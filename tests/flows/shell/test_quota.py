"""The command `quota`: what each source says, and an exit status for scripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cloud_monitoring import Monitoring
    from cloud_quotas import CloudQuotas

FAMILY = "TPUS-PER-TPU-FAMILY-per-project-region"
IN = ("--cluster", "gke://research/us-east5-b/training")


@pytest.fixture
def quota(google_quotas: CloudQuotas, google_usage: Monitoring, prefect_tpu: Callable[..., Any]) -> Callable[..., Any]:
    """Asks of a cluster in a region with 32 chips of v6e, of which 8 are used."""
    google_quotas.grant(FAMILY, 32, region="us-east5", tpu_family="CT6E")
    google_usage.use(FAMILY, "us-east5", (8, 60.0), tpu_family="CT6E")
    return lambda *words: prefect_tpu("quota", *IN, *words)


def test_what_fits_is_said_and_that_it_is_no_promise(quota: Callable[..., Any]) -> None:
    ended = quota("-a", "v6e-16")
    assert ended.status == 0
    assert ended.out.splitlines() == [
        f"v6e-16  fits: quota {FAMILY} for CT6E of project research in us-east5: needs 16 chips, has 24 of 32 (8 used)",
        "Quota says nothing of capacity.",
    ]


def test_what_does_not_fit_says_where_to_ask_and_is_a_failure(quota: Callable[..., Any]) -> None:
    ended = quota("-a", "v6e-16", "--slices", "4", "--make-pools")
    assert ended.status == 1
    first, second, _ = ended.out.splitlines()
    assert first.endswith("needs 64 chips, the limit is 32")
    assert second.startswith(
        "        → Ask for more: gcloud quotas preferences create --service compute.googleapis.com"
    )
    assert quota("-a", "v6e-64", "-a", "v6e-16").status == 0  # one of them is enough


def test_a_zone_leads_to_another_region(quota: Callable[..., Any]) -> None:
    assert "in us-west4: needs 16 chips, the limit is 0" in quota("-a", "v6e-16", "--zone", "us-west4-a").out


def test_what_cannot_be_told_is_no_failure(quota: Callable[..., Any], google_quotas: CloudQuotas) -> None:
    google_quotas.denied = True
    ended = quota("-a", "v6e-16")
    assert ended.status == 0 and "cannot tell" in ended.out
    assert "→ Ask for roles/cloudquotas.viewer in project research." in ended.out


def test_scripts_get_every_ruling(quota: Callable[..., Any]) -> None:
    first, second = json.loads(quota("-a", "v6e-64", "-a", "v6e-16", "--make-pools", "--json").out)
    assert (first["accelerator"], first["fit"]) == ("v6e-64", "does not fit")
    assert [one["is_for_good"] for one in first["rulings"]] == [True]
    assert (second["accelerator"], second["fit"]) == ("v6e-16", "fits")


def test_a_wrong_name_is_said_before_anybody_is_asked(quota: Callable[..., Any], google_quotas: CloudQuotas) -> None:
    assert quota("-a", "v6e-17").status == 2 and google_quotas.asked == []
    for odd in (("--zone", "us-east5"), ("--namespace", "Research"), ("--queue", "my queue")):
        ended = quota("-a", "v6e-16", *odd)
        assert ended.status == 2 and repr(odd[1]) in ended.err and google_quotas.asked == []


def test_a_cluster_s_name_that_is_none_is_a_wrong_call(prefect_tpu: Callable[..., Any]) -> None:
    ended = prefect_tpu("quota", "-a", "v6e-16", "--cluster", "gke://research/training")
    assert ended.status == 2 and "gke://project/location/cluster" in ended.err
