"""What follows of numbers that were told, and of those that were not."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.policy.quota import (
    Allowance,
    Fit,
    Limit,
    Ruling,
    best,
    cannot_tell,
    for_now,
    is_hopeless,
    judge,
    missing,
    together,
)

MEMORY = Limit(what="memory", unit="MiB", needed=1000, available=512.5)
DISK = Limit(what="disk", unit="MiB", needed=256, available=256)
HOSTS = Limit(what="hosts", unit="hosts", needed=32, available=16)

FITS = Ruling(fit=Fit.FITS, said="enough")
FULL = Ruling(fit=Fit.DOES_NOT, said="in use")
NEVER = Ruling(fit=Fit.DOES_NOT, said="too little", is_for_good=True)
UNKNOWN = cannot_tell("nobody says")
ANY = st.lists(st.sampled_from([FITS, FULL, NEVER, UNKNOWN]), max_size=4).map(tuple)
NUMBERS = st.integers(0, 64)


def test_exactly_enough_is_enough() -> None:
    assert DISK.is_enough
    assert missing((DISK,)) is None
    assert missing(()) is None


def test_everything_that_is_missing_is_named_with_its_numbers() -> None:
    assert missing((MEMORY, DISK, HOSTS)) == (
        "memory: 1000 MiB needed, 512.5 MiB available; hosts: 32 hosts needed, 16 hosts available."
    )


def test_a_limit_of_a_machine_is_a_ruling_that_waiting_does_not_change() -> None:
    assert DISK.ruling == Ruling(fit=Fit.FITS, said="disk: 256 MiB needed, 256 MiB available")
    assert (HOSTS.ruling.fit, HOSTS.ruling.is_for_good) == (Fit.DOES_NOT, True)


@pytest.mark.parametrize(
    ("limit", "used", "says"),
    [
        (32, 16, "fits: chips: needs 16 chips, has 16 of 32 (16 used)."),
        (16, 0, "fits: chips: needs 16 chips, has 16 of 16 (0 used)."),
        (inf, None, "fits: chips: needs 16 chips, there is no limit."),
        (16, 8, "does not fit: chips: needs 16 chips, has 8 of 16 (8 used). Ask here."),
        (16, 24, "does not fit: chips: needs 16 chips, has 0 of 16 (24 used). Ask here."),
        (8, 0, "does not fit: chips: needs 16 chips, the limit is 8. Ask here."),
        (0, None, "does not fit: chips: needs 16 chips, the limit is 0. Ask here."),
        (16, None, "cannot tell: chips: needs 16 chips, the limit is 16; how much is used is not known (away). Look."),
        (None, 0, "cannot tell: chips: away. Look."),
    ],
)
def test_numbers_and_the_lack_of_them_are_said(limit: float | None, used: float | None, says: str) -> None:
    allowance = Allowance(
        what="chips", unit="chips", limit=limit, used=used, unknown="away", more="Ask here.", look="Look."
    )
    assert str(judge(16, allowance)) == says


@given(NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS)
def test_only_numbers_that_were_told_make_it_fit(needed: int, limit: int | None, used: int | None) -> None:
    found = judge(needed, Allowance(what="x", unit="chips", limit=limit, used=used))
    if found.fit is Fit.FITS:
        assert limit is not None and used is not None and limit - used >= needed
    if found.fit is Fit.DOES_NOT:
        assert limit is not None and needed > limit - (used or 0)
    assert found.is_for_good == (limit is not None and limit < needed)
    assert (found.fit is Fit.CANNOT_TELL) == (limit is None or (used is None and limit >= needed))


@given(ANY)
def test_all_sources_count_and_none_is_no_source(rulings: tuple[Ruling, ...]) -> None:
    fit = together(rulings)
    assert (fit is Fit.FITS) == (bool(rulings) and all(one.fit is Fit.FITS for one in rulings))
    assert (fit is Fit.DOES_NOT) == any(one.fit is Fit.DOES_NOT for one in rulings)
    assert is_hopeless(rulings) == (NEVER in rulings)
    assert not is_hopeless(for_now(rulings, "nodes are there"))
    assert together(for_now(rulings, "nodes are there")) is fit


@pytest.mark.parametrize(
    ("ways", "chosen"),
    [
        ([(NEVER,), (FITS,)], (FITS,)),
        ([(NEVER,), (UNKNOWN,)], (UNKNOWN,)),
        ([(UNKNOWN,), (FITS,)], (FITS,)),
        ([(NEVER,), (FULL,)], (FULL,)),
        ([(FITS, FULL), (UNKNOWN,)], (UNKNOWN,)),
        ([(UNKNOWN,), ()], (UNKNOWN,)),
        ([], ()),
    ],
)
def test_of_several_ways_the_best_is_told(ways: list[tuple[Ruling, ...]], chosen: tuple[Ruling, ...]) -> None:
    assert best(ways) == chosen


def test_why_a_no_does_not_decide_is_said() -> None:
    assert [one.said for one in for_now((NEVER, FULL), "nodes are there")] == ["too little; nodes are there", "in use"]
