"""Shares are equal, aligned, shuffled alike, and of the type that came in."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import grain
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import shard as shard_module
from prefect_tpu.infra.training.shard import shard

Enter = Callable[..., Any]


class Pair(NamedTuple):
    x: Any
    y: Any


class Lines:
    """Data that has a length and rows by number, and nothing else."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, place: int) -> str:
        return "abcdef"[place]


def shares(enter: Enter, hosts: int, *arrays: Any, **how: Any) -> list[Any]:
    """What each host gets."""
    found = []
    for host in range(hosts):
        enter(host=host, hosts=hosts, coordinator=f"127.0.0.1:{hosts}")
        found.append(shard(*arrays, **how))
    return found


def test_outside_a_job_the_share_is_all() -> None:
    assert shard([1, 2, 3]) == [1, 2, 3]


def test_types_stay_and_arrays_are_views(inside_job: Enter) -> None:
    inside_job(host=1, hosts=2)
    array, rows = np.arange(12).reshape(6, 2), ["a", "b", "c", "d", "e", "f"]
    mine, names, pair = shard(array, rows, tuple(rows))
    assert np.shares_memory(mine, array) and mine.tolist() == [[6, 7], [8, 9], [10, 11]]
    assert names == ["d", "e", "f"] and pair == ("d", "e", "f")


@pytest.mark.parametrize("seed", [None, 3])
def test_every_kind_of_data_has_the_same_rows(inside_job: Enter, seed: int | None) -> None:
    """As its own type, so that rows that belong together may be of several."""
    inside_job(host=1, hosts=2)
    numbers = np.arange(6)
    kinds: tuple[Any, ...] = (
        numbers,
        list(numbers),
        tuple(numbers),
        range(6),
        jnp.arange(6),
        grain.MapDataset.source(numbers).map(lambda number: number + 0),
        {"column": numbers},
        defaultdict(list, {"column": numbers}),
        Pair(x=numbers, y=list(numbers)),
        Lines(),
    )
    array, *others, column, default, pair, lines = shard(*kinds, seed=seed)
    rows = array.tolist()
    assert rows == ([3, 4, 5] if seed is None else np.random.default_rng([3, 0]).permutation(6)[3:].tolist())
    for kind, other in zip(kinds[1:6], others, strict=True):
        assert [int(row) for row in other] == rows and len(other) == 3
        if not isinstance(kind, range | grain.MapDataset):
            assert type(other) is type(kind)
    assert type(others[2]) is (range if seed is None else list)
    assert isinstance(others[4], grain.MapDataset)
    assert column["column"].tolist() == rows and type(column) is dict
    assert default["column"].tolist() == rows and default["no column"] == []
    assert type(pair) is Pair and pair.x.tolist() == pair.y == rows
    assert [lines[place] for place in range(len(lines))] == ["abcdef"[row] for row in rows]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    hosts=st.integers(1, 8),
    count=st.integers(0, 60),
    seed=st.none() | st.integers(0, 2**40),
    epoch=st.integers(0, 9),
)
def test_shares_are_equal_and_disjoint_and_leave_less_than_a_row_for_each_host(
    inside_job: Enter, hosts: int, count: int, seed: int | None, epoch: int
) -> None:
    if 0 < count < hosts:
        return
    how = {} if seed is None else {"seed": seed, "epoch": epoch}
    found = shares(inside_job, hosts, list(range(count)), **how)
    assert {len(share) for share in found} == {count // hosts}
    rows = sum(found, [])
    assert len(set(rows)) == len(rows) and set(rows) <= set(range(count))
    alone = shares(inside_job, 1, list(range(count)), **how)[0]
    assert rows == alone[: len(rows)], "the order is another one than that of one host"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hosts=st.integers(1, 8), count=st.integers(1, 40), seed=st.none() | st.integers(0, 9))
def test_padded_shares_are_equal_and_have_all_rows(inside_job: Enter, hosts: int, count: int, seed: int | None) -> None:
    found = shares(inside_job, hosts, np.arange(count), seed=seed, uneven="pad")
    assert {len(share) for share in found} == {-(-count // hosts)}
    rows = np.concatenate(found)
    assert set(rows.tolist()) == set(range(count))
    assert rows[count:].tolist() == np.resize(rows[:count], len(rows))[count:].tolist(), "padded with other rows"


def test_each_epoch_is_shuffled_anew_and_the_same_again(inside_job: Enter) -> None:
    inside_job(host=1, hosts=2)
    rows = list(range(40))
    first, again, next_ = shard(rows, seed=1), shard(rows, seed=1, epoch=0), shard(rows, seed=1, epoch=1)
    assert first == again != next_ != shard(rows, seed=2, epoch=1)
    assert shard(rows, seed=jnp.int32(1), epoch=np.int64(1)) == next_, "numbers of any library"  # type: ignore[arg-type]
    assert set(first) != set(next_), "the same rows come to this host in each epoch"


def test_rows_that_no_host_ever_has_are_told_once(inside_job: Enter, caplog: pytest.LogCaptureFixture) -> None:
    shard_module._tell_dropped.cache_clear()
    inside_job(hosts=2)
    with caplog.at_level(logging.WARNING):
        assert shard([1, 2, 3]) == shard([1, 2, 3]) == [1]
        shard([1, 2, 3], seed=0)
    assert [record.getMessage() for record in caplog.records] == [
        "The last 1 of 3 rows are no host's: 2 hosts have equal shares."
    ]


@pytest.mark.parametrize(
    ("arrays", "how", "says"),
    [
        (
            ([1, 2, 3],),
            {"uneven": "refuse"},
            "3 rows cannot be shared equally by 2 hosts: 1 would be left .* 2 rows or 4",
        ),
        (([1],), {}, "1 rows cannot be shared by 2 hosts: none would have any"),
        (([1, 2], [1, 2, 3, 4]), {}, "argument 1 has 2, argument 2 has 4"),
        (({"x": [1], "y": {"z": [1, 2]}},), {}, r"argument 1\['x'\] has 1, argument 1\['y'\]\['z'\] has 2"),
        (({},), {}, "an empty dict"),
        (({"x": 1},), {}, "A int has no rows"),
        ((5,), {}, "A int has no rows"),
        (("abcd",), {}, "A str has no rows"),
        (({1, 2},), {}, "A set has no rows"),
        ((np.float32(3),), {}, "A float32 has no rows"),
        ((memoryview(b"abcd"),), {}, "A memoryview has no rows"),
        ((iter([1, 2]),), {}, "A list_iterator has no rows to share: give shard.. arrays, lists or data sets"),
        ((), {}, "was given no array"),
        (([1, 2],), {"uneven": "ignore"}, "say 'drop', 'pad', 'refuse'"),
        (([1, 2],), {"epoch": 1}, "has no seed"),
        (([1, 2],), {"seed": -1}, "give a whole number from 0"),
        (([1, 2],), {"seed": 1, "epoch": 0.5}, "give a whole number from 0"),
        ((grain.MapDataset.range(4).repeat(),), {}, r"before .repeat\(\)"),
        ((grain.MapDataset.range(4).to_iter_dataset(),), {}, r"the MapDataset that it is made of"),
        (
            (grain.DataLoader(data_source=range(4), sampler=grain.samplers.SequentialSampler(4)),),
            {},
            "its data source, or its sampler",
        ),
    ],
)
def test_refuses(inside_job: Enter, arrays: tuple[Any, ...], how: dict[str, Any], says: str) -> None:
    inside_job(hosts=2)
    with pytest.raises(UsageError, match=says):
        shard(*arrays, **how)
