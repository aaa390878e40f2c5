"""A verdict is shown with everything that it has, and several in a table that stays one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compiler_words import TWO_V6E_16, V6E_16, counted, text

from prefect_tpu.infra.compiler.crossing import Layout, axis_places
from prefect_tpu.infra.compiler.figures import GIB, available_bytes
from prefect_tpu.infra.compiler.render import Row, amount, crossing, duration, flops, markdown, sheet, table
from prefect_tpu.infra.compiler.report import Crosses, Memory, Problem, ProblemKind, Verdict
from prefect_tpu.infra.compiler.step_figures import step_of

MEMORY = Memory(
    arguments=4 * GIB,
    outputs=4 * GIB,
    aliased=3 * GIB,
    temporaries=GIB // 2,
    code=1024**2,
    total=int(5.5 * GIB),
    available=available_bytes("v6e"),
)
TOO_LARGE = Problem(
    kind=ProblemKind.TOO_LARGE,
    message="The step needs 40.00 GiB.",
    where="",
    advice="Less.",
    needs=40 * GIB,
    available=GIB,
)
RAISED = Problem(
    kind=ProblemKind.PROGRAM, message="KeyError: 'x'\nand more", where="train.py:4 in main", advice="Mend."
)


def _verdict(name: str, layout: Layout) -> Verdict:
    slices = len(layout.by_slice)
    return Verdict(
        accelerator="v6e-16",
        slices=slices,
        chips=16 * slices,
        devices=16 * slices,
        hosts=4 * slices,
        mesh=tuple(zip(layout.names, layout.sizes, strict=True)),
        axes=axis_places(layout),
        step=step_of(text(name), counted(name), MEMORY, layout, "v6e"),
        problem=None,
        compile_seconds=4.25,
        versions={"jax": "0.10.2", "libtpu": "0.0.42"},
    )


SCANNED = _verdict("scanned", V6E_16)
REFUSED = replace(SCANNED, accelerator="v5e-16", step=None, problem=TOO_LARGE)


def test_figures_of_a_step_count_every_round_of_its_loops() -> None:
    step = SCANNED.step
    assert step is not None and step.estimated_seconds is not None and step.cost.seconds is not None
    assert step.flops > 7 * step.cost.flops == 7 * counted("scanned")["flops"]
    assert step.bound_seconds == step.flops / 918e12
    assert step.estimated_seconds > 4 * step.cost.seconds


@pytest.mark.parametrize(("name", "layout"), [("two_slices", TWO_V6E_16), ("tpu7x", V6E_16)])
def test_an_estimate_that_lacks_something_is_none(name: str, layout: Layout) -> None:
    """The compiler takes a second off for each part that it cannot estimate."""
    step = _verdict(name, layout).step
    assert counted(name)["optimal_seconds"] < 0
    assert step is not None and step.estimated_seconds is None and step.cost.seconds is None


def test_a_sheet_has_everything() -> None:
    shown = sheet(SCANNED).splitlines()
    assert shown[0] == "v6e-16: 16 chips, 4 hosts, mesh fsdp=4 × tp=4"
    assert shown[1] == "fits: 5.50 GiB of 31.25 GiB of a device's memory"
    assert "arguments 4.00 GiB, outputs 4.00 GiB (3.00 GiB in place of arguments)" in shown[2]
    assert shown[-1] == "asked in 4.2 s of jax 0.10.2, libtpu 0.0.42"
    assert "  fsdp=4  between hosts" in shown
    gathered = next(line for line in shown if "all-gather" in line)
    assert gathered.split() == ["all-gather", "over", "fsdp", "32", "times", "0.02", "GiB", "between", "hosts"]


def test_two_slices_are_called_so_and_what_goes_between_them_is_told() -> None:
    verdict = _verdict("two_slices", TWO_V6E_16)
    assert sheet(verdict).startswith("2 × v6e-16: 32 chips, 8 hosts, mesh fsdp=8 × tp=4\n")
    between = crossing(verdict, Crosses.SLICES)
    assert len(between) == 5 and sheet(verdict).count("between slices") == 1 + len(between)
    assert crossing(REFUSED, Crosses.SLICES) == ()


def test_a_count_that_is_not_exact_says_so() -> None:
    assert "≥ 1 time" in sheet(_verdict("unknown_rounds", V6E_16))


def test_a_program_that_exchanges_nothing_says_so() -> None:
    assert "exchanges nothing between devices" in sheet(_verdict("multiplications", V6E_16))


def test_a_problem_is_told_with_its_place_and_its_advice() -> None:
    shown = sheet(replace(SCANNED, step=None, problem=RAISED)).splitlines()
    assert shown[1:5] == ["program raised: KeyError: 'x'", "  and more", "  at train.py:4 in main", "  → Mend."]


def test_a_table_has_a_line_for_each_and_says_why() -> None:
    raised = replace(SCANNED, accelerator="v5p-32", step=None, problem=RAISED)
    again = replace(raised, accelerator="v5p-64")
    shown = table(
        [Row(verdict=SCANNED, batch_per_chip=12), Row(verdict=REFUSED), Row(verdict=raised), Row(verdict=again)]
    )
    lines = shown.splitlines()
    assert lines[1].split()[:8] == ["v6e-16", "16", "fits", "5.50", "GiB", "of", "31.25", "GiB"] and " 12 " in lines[1]
    assert lines[2].split()[:9] == ["v5e-16", "16", "too", "large", "40.00", "GiB", "of", "1.00", "GiB"]
    assert shown.count("KeyError: 'x'") == 1, "what several have in common is told once"


def test_a_batch_that_may_be_larger_is_said_to_be() -> None:
    line = table([Row(verdict=SCANNED, batch_per_chip=8192, is_largest=False)]).splitlines()[1]
    assert "≥ 8192" in line


def test_markdown_is_a_table_and_sheets() -> None:
    shown = markdown([Row(verdict=SCANNED), Row(verdict=REFUSED)])
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert len(rows) == 4 and len({row.count("|") for row in rows}) == 1
    assert sheet(SCANNED) in shown and sheet(REFUSED) in shown


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (amount(0), "0 bytes"),
        (amount(512), "512 bytes"),
        (amount(4096), "4.00 KiB"),
        (amount(5 * 1024**2), "5.00 MiB"),
        (amount(20 * 1024**2), "0.02 GiB"),
        (amount(3 * GIB), "3.00 GiB"),
        (duration(2.5), "2.50 s"),
        (duration(0.0123), "12.3 ms"),
        (duration(2e-5), "20 µs"),
        (flops(3.5e14), "350.00 TFLOP"),
        (flops(1.5e9), "1.50 GFLOP"),
        (flops(2.5e6), "2.50 MFLOP"),
        (flops(700), "700 FLOP"),
        (duration(2e-7), "under 1 µs"),
    ],
)
def test_amounts(shown: str, wanted: str) -> None:
    assert shown == wanted
