"""Shares are equal, aligned and whole, of the type that came in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training.shard import shard


def test_outside_a_job_the_share_is_all() -> None:
    assert shard([1, 2, 3]) == [1, 2, 3]


def test_types_stay_and_arrays_are_views(inside_job: Callable[..., Any]) -> None:
    inside_job(host=1, hosts=2)
    array, rows = np.arange(12).reshape(6, 2), ["a", "b", "c", "d", "e", "f"]
    mine, names, pair = shard(array, rows, tuple(rows))
    assert np.shares_memory(mine, array) and mine.tolist() == [[6, 7], [8, 9], [10, 11]]
    assert names == ["d", "e", "f"] and pair == ("d", "e", "f")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hosts=st.integers(1, 8), each=st.integers(0, 9))
def test_the_shares_of_all_hosts_make_the_whole(inside_job: Callable[..., Any], hosts: int, each: int) -> None:
    rows = list(range(hosts * each))
    shares = []
    for host in range(hosts):
        inside_job(host=host, hosts=hosts, coordinator=f"127.0.0.1:{hosts}")
        shares.append(shard(rows))
    assert [len(share) for share in shares] == [each] * hosts
    assert sum(shares, []) == rows


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        (([1, 2, 3],), "3 rows cannot be shared equally by 2 hosts: 1 would be left over. Use 2 rows, or pad to 4"),
        (([1, 2], [1, 2, 3, 4]), "differ in length: 2, 4"),
        (({"x": 1},), "A dict has no rows"),
        ((5,), "A int has no rows"),
        ((), "was given no array"),
    ],
)
def test_refuses(inside_job: Callable[..., Any], arrays: tuple[Any, ...], says: str) -> None:
    inside_job(hosts=2)
    with pytest.raises(UsageError, match=says):
        shard(*arrays)
