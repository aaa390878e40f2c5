"""Every block of every page does what its page says, one after the other, as a newcomer would try them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from page_blocks import blocks
from reader import PAGES, Reader, page_id

from prefect_tpu.infra.gcp.google_api import CLOUD_QUOTAS, MONITORING

if TYPE_CHECKING:
    from cloud_monitoring import Monitoring
    from cloud_quotas import CloudQuotas

EXECUTED = [page for page in PAGES if any(block.is_executed for block in blocks(page))]
NEED_CLUSTER = [page for page in EXECUTED if any(block.needs_cluster for block in blocks(page))]  # tests/cluster does
NEED_GOOGLE = [page for page in EXECUTED if any(block.needs_google for block in blocks(page))]
NEED_SERVER = [page for page in EXECUTED if any(block.needs_server for block in blocks(page))]
ELSEWHERE = NEED_SERVER + NEED_CLUSTER + NEED_GOOGLE


@pytest.mark.slices
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [page for page in EXECUTED if page not in ELSEWHERE], ids=page_id)
def test_page(page: Path, reader: Reader) -> None:
    follow(page, reader)


@pytest.mark.prefect
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", NEED_SERVER, ids=page_id)
def test_page_with_prefect(page: Path, reader: Reader, request: pytest.FixtureRequest) -> None:
    reader.environment["PREFECT_API_URL"] = request.getfixturevalue("server").environment["PREFECT_API_URL"]
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


def follow(page: Path, reader: Reader) -> None:
    for block in blocks(page):
        went_wrong = reader.follow(block)
        assert not went_wrong, f"{page_id(page)}:{block.line} {went_wrong}"
    reader.close()
    assert not reader.left(), f"{page_id(page)} leaves processes: {[' '.join(p.cmdline()) for p in reader.left()]}"
