"""How often a part is done: loops by what they count, one inside the other, and loops that nobody can count."""

from __future__ import annotations

import pytest
from compiler_words import PROGRAMS, counted, program

from prefect_tpu.infra.compiler.hlo import read_program
from prefect_tpu.infra.compiler.rounds import Times, executions
from prefect_tpu.infra.compiler.work import flops_of, work

_LOOP = """HloModule loop

%body (carried: (s32[], f32[4])) -> (s32[], f32[4]) {{
  %carried = (s32[], f32[4]) parameter(0)
  %at = s32[] get-tuple-element(%carried), index=0
  %step = s32[] constant({step})
  %next = s32[] {how}(%at, %step)
  %x = f32[4] get-tuple-element(%carried), index=1
  ROOT %all = (s32[], f32[4]) tuple(%next, %x)
}}

%test (carried.1: (s32[], f32[4])) -> pred[] {{
  %carried.1 = (s32[], f32[4]) parameter(0)
  %at.1 = s32[] get-tuple-element(%carried.1), index=0
  %end = s32[] constant({end})
  ROOT %goes_on = pred[] compare(%at.1, %end), direction={direction}
}}

ENTRY %main (x.1: f32[4]) -> (s32[], f32[4]) {{
  %x.1 = f32[4] parameter(0)
  %begin = s32[] constant({begin})
  %first = (s32[], f32[4]) tuple(%begin, %x.1)
  ROOT %loop = (s32[], f32[4]) while(%first), condition=%test, body=%body
}}
"""


def _done(begin: int, end: int, step: int, direction: str, how: str = "add") -> Times:
    words = _LOOP.format(begin=begin, end=end, step=step, direction=direction, how=how)
    return executions(read_program(words))["body"]


@pytest.mark.parametrize("begin", [0, 3, -5])
@pytest.mark.parametrize("step", [1, 2, 7])
@pytest.mark.parametrize("end", [-6, 0, 3, 20])
def test_a_loop_goes_round_as_often_as_python_counts(begin: int, end: int, step: int) -> None:
    assert _done(begin, end, step, "LT").count == len(range(begin, end, step))
    assert _done(begin, end, step, "LE").count == len(range(begin, end + 1, step))
    assert _done(end, begin, step, "GT", "subtract").count == len(range(end, begin, -step))
    assert _done(end, begin, step, "GE", "subtract").count == len(range(end, begin - 1, -step))


def test_a_loop_up_to_another_number_goes_round_until_it_is_there() -> None:
    assert _done(0, 12, 3, "NE") == Times(count=4, is_exact=True)


@pytest.mark.parametrize(
    ("end", "step", "direction"),
    [(10, 3, "NE"), (10, 0, "LT"), (10, -1, "LT"), (-3, 1, "GT"), (3, 1, "EQ")],
)
def test_a_loop_whose_end_is_not_known_counts_once(end: int, step: int, direction: str) -> None:
    assert _done(0, end, step, direction) == Times(count=1, is_exact=False)


def test_scanned_layers_count_each() -> None:
    counts = {times.count for times in executions(program("scanned")).values()}
    assert counts == {1, 8}


def test_loops_in_loops_multiply() -> None:
    counts = {times.count for times in executions(program("accumulated")).values()}
    assert counts == {1, 4, 32}


def test_loops_and_branches_that_depend_on_values_are_not_exact() -> None:
    exact = {times.is_exact for times in executions(program("unknown_rounds")).values()}
    assert exact == {True, False}


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "unknown_rounds"])
def test_all_others_are(name: str) -> None:
    assert all(times.is_exact for times in executions(program(name)).values())


@pytest.mark.parametrize(("name", "micro"), [("scanned", 1), ("accumulated", 4)])
def test_operations_are_those_of_every_round(name: str, micro: int) -> None:
    """Of 8 layers of two matrices on 256 rows of a batch: forwards, and twice that backwards, by 16 devices."""
    found = program(name)
    done = work(found, executions(found))
    expected = 6 * 8 * 2 * 512 * 2048 * 256 * micro / 16
    once = counted(name)["flops"]
    assert once < 0.2 * expected, "the compiler counts a loop once"
    assert expected <= once + done.further_flops <= 1.02 * expected
    assert done.longer > 4


def test_what_is_counted_of_convolutions_is_what_the_compiler_counts() -> None:
    found = program("multiplications")
    assert sum(map(flops_of, found.computations.values())) == counted("multiplications")["flops"]


def test_without_loops_nothing_is_added() -> None:
    found = program("unrolled")
    done = work(found, executions(found))
    assert (done.further_flops, done.longer) == (0.0, 1.0)
