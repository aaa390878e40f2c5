"""Hosts whose devices are not alike are named, and a kind of another generation is refused."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.accelerator_table import GENERATIONS
from prefect_tpu.infra.errors import WrongSlice
from prefect_tpu.infra.training import device_kinds
from prefect_tpu.infra.training.slice_check import Seen, check_equal_counts, check_one_kind


def seen(*kinds: str, each: int = 2) -> list[Seen]:
    return [Seen(host=host, kind=kind) for host, kind in enumerate(kinds) for _ in range(each)]


def test_devices_of_one_kind_pass() -> None:
    assert check_one_kind(seen("TPU v4", "TPU v4")) == "TPU v4"
    check_equal_counts(seen("TPU v4", "TPU v4"))


def test_hosts_of_another_kind_are_named() -> None:
    with pytest.raises(WrongSlice, match=r"2 kinds: 'TPU v4' on hosts 0, 2, 'TPU v5 lite' on host 1\. A program"):
        check_one_kind(seen("TPU v4", "TPU v5 lite", "TPU v4"))
    with pytest.raises(WrongSlice, match=r"'cpu' on hosts 1, 2, 3, 4, 5, 6, 7, 8 and 2 more"):
        check_one_kind(seen("gpu", *("cpu",) * 10))


def test_hosts_with_other_numbers_of_devices_are_named() -> None:
    with pytest.raises(WrongSlice, match=r"1 on host 1, 2 on host 0\. Give each host as many"):
        check_equal_counts(seen("cpu", "cpu")[:-1])


@pytest.mark.parametrize("name", ["v6e-16", "tpu-v5litepod-16:spot", "V5P-2x2x4", "v6e-8@ct6e-standard-4t", "v5p-8"])
def test_a_kind_of_another_generation_is_refused(name: str) -> None:
    with pytest.raises(WrongSlice, match=r"its devices are 'TPU v4', which is v4, not v"):
        device_kinds.check(name, "TPU v4")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("v5litepod-16", "TPU v5 lite"),
        ("v5p-8", "TPU v5"),
        ("v6e-16", "TPU v6 lite"),
        ("v6e-16", "TPU v99"),
        ("tpu7-8", "TPU7x"),
    ],
)
def test_its_own_kind_and_one_that_is_not_known_pass(name: str, kind: str) -> None:
    device_kinds.check(name, kind)


def test_kinds_are_of_generations_that_there_are() -> None:
    assert set(device_kinds.KINDS.values()) == set(GENERATIONS) - {"tpu7"}
