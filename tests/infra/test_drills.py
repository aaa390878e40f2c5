"""What a drill's text means."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.drills import Drill, DrillKind, Moment, parse_drill
from prefect_tpu.infra.errors import UsageError

STEP, SAVE, START = Moment.STEP, Moment.SAVE, Moment.START


@pytest.mark.parametrize(
    ("spec", "drill"),
    [
        ("preempt@step=40,host=2", Drill(kind=DrillKind.PREEMPT, moment=STEP, number=40, host=2)),
        ("kill@step=0", Drill(kind=DrillKind.KILL, moment=STEP, number=0)),
        (" FAIL@Step=7,Host=1 ", Drill(kind=DrillKind.FAIL, moment=STEP, number=7, host=1)),
        ("hang@start", Drill(kind=DrillKind.HANG, moment=START)),
        ("kill@save=2,host=1", Drill(kind=DrillKind.KILL, moment=SAVE, number=2, host=1)),
        ("stockout@attempt=2", Drill(kind=DrillKind.STOCKOUT, moment=START, attempt=2)),
        (
            "orchestrator-kill@step=3,attempt=2,host=1",
            Drill(kind=DrillKind.ORCHESTRATOR_KILL, moment=STEP, number=3, attempt=2, host=1),
        ),
    ],
)
def test_known_drills(spec: str, drill: Drill) -> None:
    assert parse_drill(spec) == drill


@pytest.mark.parametrize(
    "spec",
    ["", "kill", "kill@", "kill@step", "kill@step=", "kill@step=-1", "kill@step=1,host=", "explode@step=1",
     "kill@host=1", "kill@host=1,step=2", "kill@step=1,host=2,host=3", "kill@step=1.5", "kill@start=1",
     "kill@step=1,host=1,attempt=1", "kill@attempt=1,attempt=2", "kill@step=1,save=2", "kill@step=1234567890"],
)  # fmt: skip
def test_unknown_drills_are_refused_with_the_kinds(spec: str) -> None:
    with pytest.raises(UsageError, match="KIND one of preempt, kill, fail"):
        parse_drill(spec)


@pytest.mark.parametrize("spec", ["kill@save=0", "kill@attempt=0", "kill@step=3,attempt=0"])
def test_what_never_strikes_is_refused(spec: str) -> None:
    with pytest.raises(UsageError, match="never strikes"):
        parse_drill(spec)


@pytest.mark.parametrize(
    ("spec", "moment", "number", "attempt", "is_due"),
    [
        ("kill@step=5", STEP, 4, 1, False),
        ("kill@step=5", STEP, 5, 1, True),
        ("kill@step=5", STEP, 9, 3, True),
        ("kill@step=5", SAVE, 5, 1, False),
        ("kill@step=5,attempt=2", STEP, 5, 1, False),
        ("kill@save=2", SAVE, 2, 1, True),
        ("kill@save=2", SAVE, 3, 1, False),
        ("kill@start", START, None, 4, True),
        ("kill@attempt=2", START, None, 1, False),
        ("kill@attempt=2", START, None, 2, True),
    ],
)
def test_when_a_drill_is_due(spec: str, moment: Moment, number: int | None, attempt: int, is_due: bool) -> None:
    assert parse_drill(spec).is_due(moment, number, attempt) is is_due


@given(
    moment=st.sampled_from(Moment),
    number=st.integers(1, 999_999_999),
    kind=st.sampled_from(DrillKind),
    attempt=st.none() | st.integers(1, 999),
    host=st.integers(0, 999),
)
@settings(max_examples=30)
def test_a_drill_reads_as_it_is_written(
    moment: Moment, number: int, kind: DrillKind, attempt: int | None, host: int
) -> None:
    drill = Drill(kind=kind, moment=moment, number=None if moment is START else number, attempt=attempt, host=host)
    assert parse_drill(str(drill)) == drill
