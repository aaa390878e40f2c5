"""The largest number that fits is found in few questions, and sizes are asked about from the smallest on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.compiler.fitting import Search, slices_asked
from prefect_tpu.infra.errors import UsageError


def _found(search: Search, limit: int) -> Search:
    while (asked := search.question) is not None:
        search = search.heard(asked <= limit)
    return search


@given(limit=st.integers(0, 3000), first=st.integers(1, 64))
def test_the_largest_that_fits_is_found(limit: int, first: int) -> None:
    found = _found(Search(first=first, most=30), limit)
    assert (found.fits, found.is_exact) == (limit, True)
    assert found.asked <= 2 * max(limit, first).bit_length() + 2


@given(limit=st.integers(0, 10**9), most=st.integers(1, 10))
def test_no_more_is_asked_than_was_allowed(limit: int, most: int) -> None:
    found = _found(Search(most=most), limit)
    assert found.asked <= most and found.fits <= limit
    assert found.fits == limit or not found.is_exact


def test_nothing_is_heard_after_the_end() -> None:
    with pytest.raises(ValueError, match="over"):
        _found(Search(), 5).heard(True)


def test_an_accelerator_is_asked_about_alone() -> None:
    assert slices_asked("v5p-32:spot") == ("v5p-32:spot",)


@pytest.mark.parametrize("generation", ["v5e", "v5p", "v6e", "tpu7x"])
def test_sizes_rise_and_double(generation: str) -> None:
    chips = [resolve(name).chips for name in slices_asked(f"TPU-{generation}-*")]
    assert chips[0] in (1, 4) and all(
        more in (2 * less, 4 * less) for less, more in zip(chips, chips[1:], strict=False)
    )


def test_the_smallest_are_as_people_call_them() -> None:
    assert slices_asked("v5p-*")[:4] == ("v5p-8", "v5p-16", "v5p-32", "v5p-64")


@pytest.mark.parametrize("name", ["v4-*", "h100-*", "-*", "*-*"])
def test_sizes_of_what_cannot_be_checked_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="v5e-\\*"):
        slices_asked(name)
