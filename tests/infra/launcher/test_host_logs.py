"""Which lines are read, of which attempt, and when reading them ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.host_logs import Wanted, lines
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import LocalStorage


@pytest.fixture
def begun(storage: LocalStorage, make_job: Callable[..., SliceJob], make_plan: Callable[..., HostPlan]) -> LocalStorage:
    """A job whose driver was killed when it had written a plan."""
    history.enter(storage, make_job())
    storage.put(layout.plan(1), make_plan(attempt=1, output=storage.url).to_json())
    return storage


def read(storage: LocalStorage, **wanted: Any) -> list[tuple[int, int, str]]:
    async def collect() -> list[tuple[int, int, str]]:
        return [(line.attempt, line.host, line.text) async for line in lines(storage, Wanted(**wanted))]

    return anyio.run(collect)


def test_what_is_there_is_read(begun: LocalStorage) -> None:
    begun.put(layout.log(1, 0), b"one\ntwo\n")
    begun.put(layout.log(1, 1), b"other\n")
    assert read(begun) == [(1, 0, "one"), (1, 0, "two")]
    assert read(begun, tail=1, hosts=None) == [(1, 0, "two"), (1, 1, "other")]


def test_nothing_is_followed_where_nobody_will_write(begun: LocalStorage) -> None:
    assert read(begun, follow=True) == []
    begun.put(layout.log(1, 0), b"one\n")
    assert read(begun, follow=True) == [(1, 0, "one")]


@pytest.mark.parametrize(("wanted", "says"), [({"attempt": 2}, "no attempt 2"), ({"hosts": (99,)}, "no host 99")])
def test_what_is_not_there_is_refused(begun: LocalStorage, wanted: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read(begun, **wanted)
