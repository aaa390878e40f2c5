"""Node pools have names that follow from the attempt and its offer, and labels that say whose they are."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra import layout
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.gcp import pool_names
from prefect_tpu.infra.gcp.pool_names import Try, pool_count, read_owner
from tests.infra.gcp.pool_wishes import NOW, a_try

JOBS = st.from_regex(layout.JOB_NAME, fullmatch=True).filter(lambda name: not name.endswith("-"))  # as backends do
TRIES = st.builds(
    Try,
    job=JOBS,
    attempt=st.integers(1, 999),
    output=st.text(min_size=1),
    accelerator=st.sampled_from(("v6e-16", "v6e-16:spot", "v5p-2x2x4", "l4", "v6e-16:reserved=block-a")),
    zone=st.none() | st.sampled_from(("us-east5-a", "us-east5-b")),
)


@given(TRIES, st.integers(0, 999))
def test_google_takes_every_name_and_label(tried: Try, index: int) -> None:
    name = tried.name(index)
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", name)
    assert len(name) <= pool_names.LONGEST_NAME
    for key, value in tried.labels(NOW, NOW + 1).items():
        assert re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", key)
        assert re.fullmatch(r"[a-z0-9_-]{0,63}", value)
        assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", value)  # on nodes


@given(TRIES, TRIES)
def test_two_tries_share_a_pool_only_if_they_are_the_same(one: Try, other: Try) -> None:
    assert (one.name(0) == other.name(0)) == (one == other)
    assert (one.pools == other.pools) or one != other


@given(TRIES)
def test_labels_are_read_as_they_were_written(tried: Try) -> None:
    owner = read_owner(tried.labels(NOW, NOW + 60))
    assert owner is not None
    assert (owner.job, owner.attempt, owner.owner) == (tried.job, tried.attempt, tried.owner)
    assert (owner.pools, owner.made, owner.deadline) == (tried.pools, NOW, NOW + 60)


@pytest.mark.parametrize("change", [{"prefect-tpu-attempt": "two"}, {"prefect-tpu-deadline": ""}])
def test_a_pool_with_labels_that_nobody_of_ours_wrote_is_not_ours(change: dict[str, str]) -> None:
    assert read_owner({**a_try().labels(NOW, NOW), **change}) is None


@pytest.mark.parametrize("missing", sorted(a_try().labels(NOW, NOW)))
def test_a_pool_that_lacks_a_label_is_not_ours(missing: str) -> None:
    labels = a_try().labels(NOW, NOW)
    del labels[missing]
    assert read_owner(labels) is None


@pytest.mark.parametrize(("accelerator", "slices", "pools"), [("v6e-16", 3, 3), ("v6e-8", 3, 1), ("h100x8", 2, 1)])
def test_joined_hosts_have_a_pool_for_each_slice_and_single_ones_share_one(
    accelerator: str, slices: int, pools: int
) -> None:
    assert pool_count(resolve(accelerator), slices) == pools


def test_the_taint_of_a_pool_names_the_try_by_a_key_of_its_own() -> None:
    tried = a_try()
    taints = [pool_names.taint_of(tried.name(index)) for index in (0, 1)]
    assert taints == [{"key": pool_names.TAINT, "value": tried.pools}] * 2
    assert pool_names.TAINT not in tried.labels(NOW, NOW)
    assert pool_names.taint_of(a_try(attempt=3).name(0)) != taints[0]


def test_what_the_nodes_of_all_pools_of_a_try_have_in_common_follows_from_their_names() -> None:
    tried = a_try()
    label = pool_names.label_of((tried.name(0), tried.name(1)))
    assert label == {pool_names.POOLS: tried.pools}
    assert label.items() <= tried.labels(NOW, NOW).items()
