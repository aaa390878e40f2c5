"""Batches are the same on any number of hosts, and go on where they were."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import grain
import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import batches as batches_module
from prefect_tpu.infra.training import data_position
from prefect_tpu.infra.training.batches import batches
from prefect_tpu.infra.training.checkpoints import checkpoints

Enter = Callable[..., Any]


def drawn(enter: Enter, hosts: int, count: int, state: Any = None, **how: Any) -> tuple[list[list[int]], Any]:
    """(global batches of all hosts, where host 0 is then)"""
    by_host, where = [], None
    for host in range(hosts):
        enter(host=host, hosts=hosts, coordinator=f"127.0.0.1:{hosts}")
        mine = batches(np.arange(count), **how)
        if state is not None:
            mine.set_state(state)
        by_host.append([batch.tolist() for batch in islice(mine, 12)])
        where = where or json.loads(json.dumps(mine.get_state()))
    return [sum(parts, []) for parts in zip(*by_host, strict=True)], where


HOW = {
    "count": st.integers(1, 60),
    "each": st.integers(1, 3),
    "seed": st.none() | st.integers(0, 9),
    "uneven": st.sampled_from(["drop", "pad"]),
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(hosts=st.sampled_from([1, 2, 3, 4, 6]), **HOW)
def test_the_same_on_any_number_of_hosts(
    inside_job: Enter, hosts: int, count: int, each: int, seed: int | None, uneven: str
) -> None:
    how = {"size": 12 * each, "seed": seed, "uneven": uneven}
    if uneven == "drop" and count < 12 * each:
        return
    (alone, where), (together, there) = drawn(inside_job, 1, count, **how), drawn(inside_job, hosts, count, **how)
    assert alone == together and where == there
    on, _ = drawn(inside_job, hosts, count, where, **how)
    assert on == drawn(inside_job, 12, count, where, **how)[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(cut=st.integers(0, 12), **HOW)
def test_an_epoch_has_each_row_once_and_goes_on_where_it_was(
    inside_job: Enter, cut: int, count: int, each: int, seed: int | None, uneven: str
) -> None:
    if uneven == "drop" and count < each:
        return
    mine = batches(list(range(count)), size=each, seed=seed, epochs=2, uneven=uneven)  # type: ignore[arg-type]
    whole = list(mine)
    assert len(whole) == 2 * mine.per_epoch and mine.epoch == 2
    for epoch in (whole[: mine.per_epoch], whole[mine.per_epoch :]):
        rows = sum(epoch, [])
        assert len(set(rows)) == min(len(rows), count) and (len(rows) > count - each)
        assert set(rows) == set(range(count)) or uneven == "drop"

    one = batches(list(range(count)), size=each, seed=seed, epochs=2, uneven=uneven)  # type: ignore[arg-type]
    begun = list(islice(one, cut))
    other = batches(list(range(count)), size=each, seed=seed, epochs=2, uneven=uneven)  # type: ignore[arg-type]
    other.set_state(one.get_state())
    assert other.epoch == one.epoch and begun + list(other) == whole


def test_a_batch_of_another_size_goes_on_at_the_same_row() -> None:
    before, after = batches(range(100), size=20, seed=None), batches(range(100), size=30, seed=None)
    next(before), next(before)
    after.set_state(before.get_state())
    assert [(batch[0], batch[-1]) for batch in islice(after, 3)] == [(40, 69), (70, 99), (0, 29)]


def test_columns_and_data_sets_come_as_batches() -> None:
    elements = grain.MapDataset.range(6).map(lambda i: {"x": np.full(2, i), "y": i})
    stacked, column, text = next(batches(elements, {"z": np.arange(6)}, list("abcdef"), size=4, seed=1))
    order = np.random.default_rng([1, 0]).permutation(6)[:4]
    assert stacked["x"].tolist() == [[i, i] for i in order] and stacked["y"].tolist() == order.tolist()
    assert column["z"].tolist() == order.tolist() and text == ["abcdef"[i] for i in order]


@pytest.mark.parametrize(
    ("hosts", "how", "says"),
    [
        (2, {"size": 5}, "A batch of 5 rows cannot be shared equally by 2 hosts: use 4 or 6"),
        (4, {"size": 2}, "use 4"),
        (1, {"size": 11}, "10 rows make no batch of 11"),
        (1, {"size": 4, "uneven": "refuse"}, "10 rows make no whole number of batches of 4: 2 would be left over"),
        (1, {"size": 0}, "size=0.: give a whole number from 1"),
        (1, {"size": 2, "epochs": -1}, "epochs=-1.: give a whole number from 0"),
        (1, {"size": 2, "seed": 0.5}, "seed=0.5.: give a whole number from 0"),
        (1, {"size": 2, "uneven": "x"}, r"batches\(uneven='x'\): say 'drop', 'pad', 'refuse'"),
    ],
)
def test_refuses(inside_job: Enter, hosts: int, how: dict[str, Any], says: str) -> None:
    inside_job(hosts=hosts)
    with pytest.raises(UsageError, match=says):
        batches(range(10), **how)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"epoch": 0, "done": 2, "rows": 9, "seed": 0}, "rows=9 then, 10 now"),
        ({"epoch": 0, "done": 2, "rows": 10, "seed": 5}, "seed=5 then, 0 now"),
        ({"epoch": -1, "done": 2, "rows": 10, "seed": 0}, "another iterator's was saved"),
        ({"epoch": 0, "done": "2", "rows": 10, "seed": 0}, "another iterator's was saved"),
        ({"next_index": 3}, "another iterator's was saved"),
        ([1], "another iterator's was saved"),
    ],
)
def test_a_position_in_other_data_is_refused(state: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        batches(range(10), size=2).set_state(state)


def test_rows_that_are_in_no_batch_of_any_epoch_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    batches_module._tell_dropped.cache_clear()
    with caplog.at_level(logging.WARNING):
        batches(range(10), size=4, seed=None), batches(range(10), size=4, seed=None, epochs=1)
        batches(range(10), size=4), batches(range(10), size=4, seed=None, uneven="pad")
        batches(range(10), size=5, seed=None)
    assert [record.getMessage() for record in caplog.records] == [
        "The last 2 of 10 rows are in no batch: batches have 4 rows."
    ]


@pytest.mark.parametrize(("seed", "change"), [(None, -1), (0, -1), (0, 1)])
def test_rows_that_become_more_or_fewer_are_told(seed: int | None, change: int) -> None:
    rows = list(range(10))
    drawn = batches({"x": rows}, size=5, seed=seed)
    next(drawn)
    rows[:] = range(10 + change)
    with pytest.raises(UsageError, match=rf"has {10 + change} rows by now, and had 10: give it data that stays"):
        next(drawn)


def test_a_file_that_is_read_forwards_alone_comes_in_any_order(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        rows = file.create_dataset("rows", data=np.arange(12).reshape(6, 2))
        in_order, shuffled, padded = (
            next(batches(rows, np.arange(6), size=size, seed=seed, uneven="pad"))
            for size, seed in ((4, None), (4, 1), (8, 1))
        )
    for found, numbers in (in_order, shuffled, padded):
        assert found.tolist() == [[2 * number, 2 * number + 1] for number in numbers]


class Stream:
    """As a stream of Hugging Face and a loader of torchdata keep their position."""

    def __init__(self) -> None:
        self.drawn = 0

    def state_dict(self) -> dict[str, int]:
        return {"drawn": self.drawn}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.drawn = state_dict["drawn"]


def test_positions_are_stored_and_found_again() -> None:
    loader = grain.DataLoader(
        data_source=range(10),
        sampler=grain.samplers.IndexSampler(10, shuffle=True, seed=0, shard_options=grain.sharding.NoSharding()),
        operations=[grain.transforms.Batch(2)],
    )
    dataset = grain.MapDataset.range(10).shuffle(seed=0).batch(2).to_iter_dataset()
    for source in (loader, dataset):
        data: Any = iter(source)
        next(data)
        (stored,) = data_position.positions(data)
        following = next(data).tolist()
        other: Any = iter(source)
        data_position.set_position(other, json.loads(json.dumps([stored])), 0, 1)
        assert next(other).tolist() == following
    stream, other_stream = Stream(), Stream()
    stream.drawn = 7
    data_position.set_position(other_stream, data_position.positions(stream) * 2, 3, 4)
    assert other_stream.drawn == 7


def test_what_has_no_position_is_refused_at_the_beginning() -> None:
    data_position.check(None)
    data_position.check(batches(range(4), size=2))
    for data in (iter([1, 2]), grain.MapDataset.range(4)):
        with pytest.raises(UsageError, match="has no position that could be saved"):
            data_position.check(data)  # type: ignore[arg-type]


@pytest.mark.parametrize("drawn", [object(), (1, 2), {1: "one"}, [{"rows": {3}}]])
def test_a_position_that_json_would_change_is_refused(drawn: Any) -> None:
    stream = Stream()
    stream.drawn = drawn
    with pytest.raises(UsageError, match="Stream cannot be saved: state_dict.. returns what is neither bytes nor JSON"):
        data_position.positions(stream)


@pytest.mark.parametrize("drawn", [None, True, 0.5, float("inf"), [1, "two", {"three": []}]])
def test_a_position_that_json_keeps_comes_back(drawn: Any) -> None:
    stream, other = Stream(), Stream()
    stream.drawn = drawn
    data_position.set_position(other, json.loads(json.dumps(data_position.positions(stream))), 0, 1)
    assert other.drawn == drawn and type(other.drawn) is type(drawn)


def test_a_position_that_other_hosts_do_not_take_is_explained() -> None:
    def loader(host: int) -> Any:
        options = grain.sharding.ShardOptions(host, 2, drop_remainder=True)
        sampler = grain.samplers.IndexSampler(10, shuffle=True, seed=0, shard_options=options)
        return iter(grain.DataLoader(data_source=range(10), sampler=sampler))

    stored = data_position.positions(loader(0))
    with pytest.raises(UsageError, match="data=… was saved by 1 host, .* on 2: .*prefect_tpu.batches"):
        data_position.set_position(loader(1), stored, 1, 2)


def test_checkpoints_refuse_it_before_they_open(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="A list_iterator has no position"),
        checkpoints(data=iter([1]), directory=tmp_path),  # type: ignore[arg-type]
    ):
        pass
    assert list(tmp_path.iterdir()) == []
