"""What a drill's text means."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.drills import Drill, DrillKind, parse_drill
from prefect_tpu.infra.errors import UsageError


@pytest.mark.parametrize(
    ("spec", "drill"),
    [
        ("preempt@step=40,host=2", Drill(kind=DrillKind.PREEMPT, step=40, host=2)),
        ("kill@step=0", Drill(kind=DrillKind.KILL, step=0, host=0)),
        (" FAIL@Step=7,Host=1 ", Drill(kind=DrillKind.FAIL, step=7, host=1)),
    ],
)
def test_known_drills(spec: str, drill: Drill) -> None:
    assert parse_drill(spec) == drill


@pytest.mark.parametrize(
    "spec",
    ["", "kill", "kill@", "kill@step", "kill@step=", "kill@step=-1", "kill@step=1,host=", "explode@step=1",
     "kill@host=1", "kill@host=1,step=2", "kill@step=1,host=2,host=3", "kill@step=1.5"],
)  # fmt: skip
def test_unknown_drills_are_refused_with_the_kinds(spec: str) -> None:
    with pytest.raises(UsageError, match="KIND one of preempt, kill, fail"):
        parse_drill(spec)


@given(st.builds(Drill, kind=st.sampled_from(DrillKind), step=st.integers(0), host=st.integers(0)))
@settings(max_examples=30)
def test_a_drill_reads_as_it_is_written(drill: Drill) -> None:
    assert parse_drill(str(drill)) == drill
