"""What a job takes of an offer, and the note of it."""

from __future__ import annotations

import json
from collections.abc import Callable

import anyio
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ContractError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher.permits import (
    UNCOUNTED,
    Chips,
    Permit,
    Standing,
    chips_of,
    read_permit,
    write_permit,
)
from prefect_tpu.infra.state import Offer
from prefect_tpu.infra.storage import LocalStorage

PERMIT = Permit(lease="0b8f", chips=Chips(kind="v6e", count=16))


@pytest.mark.parametrize(
    ("accelerator", "settings", "kind", "count"),
    [
        ("v6e-16", {}, "v6e", 16),
        ("v6e-16:spot", {}, "v6e", 16),
        ("v6e-16@ct6e-standard-4t", {"slices": 3, "backend": "jobset"}, "v6e", 48),
        ("v5p-32", {}, "v5p", 16),
        ("v5p-32", {"dialect": "chips"}, "v5p", 32),
        ("tpu-v5litepod-4", {}, "v5e", 4),
        ("h100x8", {}, "h100", 8),
    ],
)
def test_chips_are_counted_by_generation_as_google_counts_machines(
    make_job: Callable[..., SliceJob], accelerator: str, settings: dict[str, object], kind: str, count: int
) -> None:
    job = make_job(accelerators=(accelerator,), **settings)
    assert chips_of(job, Offer(accelerator=accelerator)) == Chips(kind=kind, count=count)


@pytest.mark.parametrize("accelerator", ["cpu", "cpu-2x4"])
def test_processors_are_not_counted(make_job: Callable[..., SliceJob], accelerator: str) -> None:
    assert chips_of(make_job(accelerators=(accelerator,)), Offer(accelerator=accelerator)) is None


def test_it_is_read_as_it_was_noted(storage: LocalStorage) -> None:
    assert read_permit(storage) is None
    write_permit(storage, PERMIT)
    assert read_permit(storage) == PERMIT


@pytest.mark.parametrize("raw", ["", "{}", '{"version":1}', json.dumps({"version": 1, "lease": "x", "chips": 4})])
def test_one_that_is_damaged_is_named(storage: LocalStorage, raw: str) -> None:
    storage.put(layout.PERMIT, raw.encode())
    with pytest.raises(ContractError, match=layout.PERMIT):
        read_permit(storage)


def test_where_nobody_counts_all_may_be_had() -> None:
    assert anyio.run(UNCOUNTED.take, PERMIT.chips) is None
    assert anyio.run(UNCOUNTED.renew, PERMIT) is Standing.LAPSED


@pytest.mark.parametrize(("count", "words"), [(1, "1 chip of l4"), (4, "4 chips of l4")])
def test_chips_are_worded(count: int, words: str) -> None:
    assert str(Chips(kind="l4", count=count)) == words
