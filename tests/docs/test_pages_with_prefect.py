"""Every block of every page that needs a Prefect server does what its page says, as a newcomer would try them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages_followed import NEED_SERVER, follow
from reader import Reader, page_id


@pytest.mark.prefect
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", NEED_SERVER, ids=page_id)
def test_page_with_prefect(page: Path, reader: Reader, request: pytest.FixtureRequest) -> None:
    reader.environment["PREFECT_API_URL"] = request.getfixturevalue("server").environment["PREFECT_API_URL"]
    follow(page, reader)
