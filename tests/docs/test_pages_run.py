"""Every block of every page does what its page says, one after the other, as a newcomer would try them."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_blocks import blocks
from reader import PAGES, Reader, page_id

EXECUTED = [page for page in PAGES if any(block.is_executed for block in blocks(page))]
NEED_CLUSTER = [page for page in EXECUTED if any(block.needs_cluster for block in blocks(page))]  # tests/cluster does
NEED_SERVER = [page for page in EXECUTED if any(block.needs_server for block in blocks(page))]


@pytest.mark.slices
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [page for page in EXECUTED if page not in NEED_SERVER + NEED_CLUSTER], ids=page_id)
def test_page(page: Path, reader: Reader) -> None:
    follow(page, reader)


@pytest.mark.prefect
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", NEED_SERVER, ids=page_id)
def test_page_with_prefect(page: Path, reader: Reader, request: pytest.FixtureRequest) -> None:
    reader.environment["PREFECT_API_URL"] = request.getfixturevalue("server").environment["PREFECT_API_URL"]
    follow(page, reader)


def follow(page: Path, reader: Reader) -> None:
    for block in blocks(page):
        went_wrong = reader.follow(block)
        assert not went_wrong, f"{page_id(page)}:{block.line} {went_wrong}"
    reader.close()
    assert not reader.left(), f"{page_id(page)} leaves processes: {[' '.join(p.cmdline()) for p in reader.left()]}"
