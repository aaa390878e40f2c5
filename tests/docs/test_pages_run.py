"""Every block of every page does what its page says, one after the other, as a newcomer would try them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pages_followed import ELSEWHERE, EXECUTED, NEED_GOOGLE, follow
from reader import Reader, page_id

from prefect_tpu.infra.gcp.google_api import CLOUD_QUOTAS, MONITORING

if TYPE_CHECKING:
    from cloud_monitoring import Monitoring
    from cloud_quotas import CloudQuotas


LONG = ("docs/examples/language_model/README.md", "docs/examples/two_slices/README.md")  # trainings of some minutes
HERE = [
    pytest.param(page, marks=[pytest.mark.long] if page_id(page) in LONG else [], id=page_id(page))
    for page in EXECUTED
    if page not in ELSEWHERE
]


@pytest.mark.slices
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", HERE)
def test_page(page: Path, reader: Reader) -> None:
    follow(page, reader)


@pytest.mark.slices
@pytest.mark.parametrize("page", NEED_GOOGLE, ids=page_id)
def test_page_with_google(page: Path, reader: Reader, google_quotas: CloudQuotas, google_usage: Monitoring) -> None:
    """Of a project with some v6e and no v5p in its region."""
    family, zone = "TPUS-PER-TPU-FAMILY-per-project-region", "TPU-V5P-per-project-zone"
    google_quotas.grant(family, 32, project="my-project", region="us-east5", tpu_family="CT6E")
    google_usage.use(family, "us-east5", (8, 60.0), project="my-project", tpu_family="CT6E")
    google_quotas.grant(zone, 64, project="my-project", zone="us-east5-a")
    google_usage.use(zone, "us-east5-a", (0, 60.0), project="my-project")
    reader.environment.update({CLOUD_QUOTAS.override: google_quotas.url, MONITORING.override: google_usage.url})
    follow(page, reader)
