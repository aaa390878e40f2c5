"""What this machine's backends are tried with; `tests/cluster/test_contract.py` does the same for a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from prefect_tpu.infra.backends.base import Backend
from prefect_tpu.infra.backends.local import LocalBackend
from tests.contract.desk import Desk

# name → how to open the backend; the environment is that of a machine of the test's own.
BACKENDS: dict[str, Callable[[Mapping[str, str]], Backend]] = {"local": LocalBackend}


@pytest.fixture(params=sorted(BACKENDS))
def open_backend(request: pytest.FixtureRequest, machine: Any) -> Callable[..., Backend]:
    """Opens the backend as another process would: nothing is shared but the machine."""
    return lambda **environment: BACKENDS[request.param]({**machine.environment, **environment})


@pytest.fixture
def desk(open_backend: Callable[..., Backend], machine: Any) -> Iterator[Desk]:
    yield Desk(open_backend, machine.output / "job")
    assert machine.left() == [], "a test of the contract forgets what it began"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
