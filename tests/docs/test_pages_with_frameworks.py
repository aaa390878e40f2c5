"""Every block of every page that needs PyTorch and its like does what its page says, as a newcomer would try them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages_followed import NEED_FRAMEWORKS, follow
from reader import Reader, page_id


@pytest.mark.frameworks
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", NEED_FRAMEWORKS, ids=page_id)
def test_page_with_frameworks(page: Path, tmp_path: Path, frameworks: Path) -> None:
    with Reader(tmp_path, frameworks / "python") as reader:
        follow(page, reader)
