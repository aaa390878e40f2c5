"""Every block of every page that asks Google's compiler does what its page says, as a newcomer would try them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pages_followed import NEED_COMPILER, follow
from reader import Reader, page_id

PYTHON = "PREFECT_TPU_COMPILER_PYTHON"


@pytest.mark.compiler
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", NEED_COMPILER, ids=page_id)
def test_page_with_compiler(page: Path, reader: Reader) -> None:
    python = os.environ.get(PYTHON, "")
    if not Path(python).is_file() and os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"{PYTHON} is {python!r}: `make setup-compiler` makes such an environment.")
    if not Path(python).is_file():
        pytest.skip(f"{PYTHON} is {python!r}: `make setup-compiler` makes such an environment.")
    reader.environment[PYTHON] = python
    follow(page, reader)
