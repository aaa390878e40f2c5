"""Where the ways of hosts part: at the call itself where both hold it, between two calls where they do not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.training.trail import END, Mark, Parting, Trail, parting, read, written


def walked(steps: int, *, odd_at: int | None = None, value: str = "32", begin: int = 0) -> Trail:
    trail = Trail()
    for step in range(begin, begin + steps):
        trail.add(step, {"batch": value if step == odd_at else "32"})
    return trail


def compared(*trails: Trail) -> Parting | None:
    return parting({host: trail.marks() for host, trail in enumerate(trails)})


def test_hosts_on_one_way_do_not_part_however_far_apart_they_are() -> None:
    assert compared(walked(2000), walked(1500), walked(3)) is None
    assert compared(walked(5)) is None


def test_the_host_that_is_alone_with_its_value_is_named() -> None:
    found = compared(walked(4), walked(4, odd_at=3, value="16"), walked(4))
    assert found == Parting(hosts=(1,), said="host 1 said batch=16 at step 3, and hosts 0, 2 batch=32")


def test_of_as_many_of_each_the_leader_is_taken_for_right() -> None:
    found = compared(walked(4, odd_at=2, value="16"), walked(4))
    assert found is not None and found.hosts == (1,)


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (walked(3, begin=1), "host 1 came to step 1 at call 1 of agree(), where host 0 came to step 0"),
        (walked(2), "host 1 came to the end of its program, where host 0 came to step 2"),
    ],
    ids=["step", "end"],
)
def test_other_steps_and_an_early_end(odd: Trail, said: str) -> None:
    if "end" in said:
        odd.add(END, {})
    assert compared(walked(3), odd) == Parting(hosts=(1,), said=said)


def test_what_was_not_given_is_nothing() -> None:
    odd = Trail()
    odd.add(0, {})
    found = compared(walked(1), odd)
    assert found is not None and found.said == "host 1 said batch=nothing at step 0, and host 0 batch=32"


def test_of_long_ago_the_place_is_known_roughly() -> None:
    found = compared(walked(1000), walked(1000, odd_at=300, value="16"))
    assert found is not None and found.hosts == (1,)
    assert found.said == "host 1 went another way than host 0 between step 255 and step 511"


def test_what_came_late_is_compared_where_it_is_there() -> None:
    marks = walked(2).marks()
    with_loss = {host: [replace(mark, late={"loss": str(host)}) for mark in marks] for host in (0, 1)}
    found = parting(with_loss | {2: marks})
    assert found == Parting(hosts=(1,), said="host 1 said loss=1 at step 0, and host 0 loss=0")


def test_marks_travel() -> None:
    trail = walked(40)
    assert read(written(trail.marks())) == trail.marks()
    assert len(json.dumps(written(walked(10_000).marks()))) < 8192


@settings(max_examples=60, deadline=None)
@given(ahead=st.integers(1, 600), behind=st.integers(1, 600), odd_at=st.integers(0, 599))
def test_two_hosts_always_hold_a_call_that_both_have_made(ahead: int, behind: int, odd_at: int) -> None:
    one, other = walked(ahead), walked(behind, odd_at=odd_at, value="16")
    calls = [{mark.call for mark in trail.marks()} for trail in (one, other)]
    common = max(calls[0] & calls[1])
    assert common > min(ahead, behind) - max(1, abs(ahead - behind))
    if odd_at < common:
        assert compared(one, other) is not None
    elif odd_at >= min(ahead, behind):
        assert compared(one, other) is None


def test_a_mark_says_what_it_is() -> None:
    mark = Trail().add(3, {"lr": "0.1"})
    assert mark == Mark(call=1, step=3, values={"lr": "0.1"}, way=mark.way) and len(mark.way) == 16
