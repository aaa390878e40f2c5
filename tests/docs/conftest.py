"""What following a page needs: a reader, and for some pages a Prefect server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests are no package: these modules are for this folder, and the server is that of the Prefect tier.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "prefect")]

from prefect_server import Server, running_server  # noqa: E402
from reader import Reader  # noqa: E402


@pytest.fixture  # of each page its own: pages make things of the same names
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with Reader(tmp_path) as reader:
        yield reader
