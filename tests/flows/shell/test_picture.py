"""A job's picture says where it stands, what is saved, how long it takes yet, and who is silent."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console, Group, RenderableType

from prefect_tpu.flows.shell.picture import attempts, picture, silent
from prefect_tpu.flows.shell.progress import Pace
from prefect_tpu.infra.contract import Activity, Progress
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher.host_status import HostStatus
from prefect_tpu.infra.launcher.status import JobStatus
from prefect_tpu.infra.state import HostPhase, JobState

RUNNING = tuple(
    HostStatus(host=n, phase=HostPhase.RUNNING, joined=True, progress=Progress(step=30 + n, metrics={"loss": 0.5}))
    for n in range(2)
)
SEEN = JobStatus(
    name="digits",
    output="/out/digits",
    state=JobState.RUNNING,
    attempt=2,
    accelerator="v6e-8",
    accelerators=("v6e-16", "v6e-8"),
    steps=60,
    driver=None,
    hosts=RUNNING,
    attempts=(),
    failure=None,
    value=None,
    began=0.0,
    changed=0.0,
)


def drawn(renderable: RenderableType, width: int = 100) -> list[str]:
    console = Console(file=StringIO(), width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(renderable)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_running_job() -> None:
    lines = drawn(picture(SEEN, took=65.0, left=125.0))
    assert lines[0] == "digits · attempt 2 on v6e-8 · running · 1:05"
    assert lines[1].endswith("53 % 32 of 60 steps, loss 0.5, nothing saved yet, 2:05 left")
    assert lines[2] == "hosts ● ● 2 running"


def test_a_job_that_may_be_in_several_places_says_where_it_is() -> None:
    lines = drawn(picture(replace(SEEN, where="us-east5-b of gke://p/us-east5/c"), took=65.0))
    assert lines[0] == "digits · attempt 2 on v6e-8 in us-east5-b of gke://p/us-east5/c · running · 1:05"


def test_the_table_of_attempts_says_where_they_were_only_if_that_differs() -> None:
    first = AttemptSummary(
        number=1, accelerator="v6e-8", started=0.0, ended=9.0, outcome="no_capacity", failure=None,
        cluster="training", zone="us-east5-a",
    )  # fmt: skip
    assert drawn(Group(*attempts([first])))[0].split()[:4] == ["ATTEMPT", "ACCELERATOR", "ENDED", "AS"]
    there = drawn(Group(*attempts([first, replace(first, number=2, zone="us-east5-b")])))
    assert there[0].split()[:3] == ["ATTEMPT", "ACCELERATOR", "WHERE"]
    assert [line.split()[1:4] for line in there[1:]] == [
        ["v6e-8", "us-east5-a", "no_capacity"],
        ["v6e-8", "us-east5-b", "no_capacity"],
    ]


@pytest.mark.parametrize(("width", "bar"), [(80, 20), (120, 24), (70, 10)])
def test_the_bar_gives_way_to_the_words(width: int, bar: int) -> None:
    lines = drawn(picture(SEEN, took=65.0, left=125.0), width)
    assert len(lines) == 3 and lines[1].endswith(" left") and lines[1].index("53 %") == bar + 1


def test_words_that_find_no_room_go_on_below_a_bar_that_stays() -> None:
    lines = drawn(picture(SEEN, took=65.0, left=125.0), 50)
    assert len(lines) == 4 and max(map(len, lines)) <= 50 and lines[2].startswith(" " * 9)


def test_without_a_number_of_steps_there_is_no_bar() -> None:
    assert drawn(picture(replace(SEEN, steps=None), took=0.0))[1] == "step 31, loss 0.5, nothing saved yet"


def test_before_the_first_report_it_says_where_it_goes_on() -> None:
    started = HostStatus(host=0, phase=HostPhase.RUNNING)
    gone = HostStatus(host=1, phase=HostPhase.ENDED, exit_code=81, progress=Progress(saved_step=28))
    lines = drawn(picture(replace(SEEN, hosts=(started, gone)), took=1.0, state=JobState.BACKING_OFF))
    assert lines == [
        "digits · attempt 2 on v6e-8 · backing off · 0:01",
        "goes on from step 28",
        "hosts ● ■ 1 starting, 1 failed",
    ]
    assert drawn(picture(replace(SEEN, attempt=0, hosts=()), took=1.0)) == ["digits · v6e-8 · running · 0:01"]


def test_a_job_that_has_ended_has_no_bar() -> None:
    assert len(drawn(picture(replace(SEEN, state=JobState.FAILED), took=1.0))) == 1


def test_a_host_that_keeps_the_others_waiting_is_named() -> None:
    own = (0.001, 0.09)
    hosts = tuple(
        replace(host, progress=replace(host.progress, step_seconds=0.1, own_seconds=seconds))
        for host, seconds in zip(RUNNING, own, strict=True)
    )
    lines = drawn(picture(replace(SEEN, hosts=hosts), took=65.0), width=200)
    assert lines[3].startswith("host 1 is slow: its own part of a step takes 0.090 s, that of the others 0.001 s")
    assert replace(SEEN, hosts=hosts).to_json()["slow_host"] == 1 and SEEN.to_json()["slow_host"] is None


def test_who_is_silent_is_named_once_for_all_that_do_the_same() -> None:
    one = replace(RUNNING[0], silent_seconds=40.0, activity=Activity.COMPILING)
    other = replace(RUNNING[1], silent_seconds=40.4, activity=Activity.COMPILING)
    assert silent([one]) == ["host 0 silent for 40s, compiling"]
    assert silent([one, other]) == ["hosts 0, 1 silent for 40s, compiling"]
    assert silent([replace(one, activity=Activity.UNKNOWN), other]) == [
        "host 0 silent for 40s",
        "host 1 silent for 40s, compiling",
    ]
    assert silent([*RUNNING, replace(one, phase=HostPhase.ENDED)]) == []
    assert drawn(picture(replace(SEEN, hosts=(one, other)), took=0.0))[-1] == "hosts 0, 1 silent for 40s, compiling"


def test_the_rest_takes_as_long_as_this_attempts_pace() -> None:
    pace = Pace()
    pace.note(0.0, SEEN)
    assert pace.left(SEEN) is None
    later = replace(SEEN, hosts=tuple(replace(host, progress=Progress(step=41)) for host in RUNNING))
    pace.note(20.0, later)
    pace.note(29.0, later)
    assert pace.left(later) == pytest.approx(18 * 2.0), "59 is the last of 60 steps"
    pace.note(30.0, replace(later, attempt=3))
    assert pace.left(replace(later, attempt=3)) is None
    assert pace.left(replace(later, steps=None)) is None
