"""Drills strike the right host at the right moment, once in a job's life, each in its own way."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ContractError, Scratch
from prefect_tpu.infra.drills import DrillFailure, Moment, parse_drill
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.rehearsal import LONGEST_WAIT, SHORTEST_WAIT, Note, Rehearsal, read_note, take_note
from prefect_tpu.infra.storage import LocalStorage

START, STEP, SAVE = Moment.START, Moment.STEP, Moment.SAVE
NOBODY = 0  # no drill of these tests strikes a runner

STRIKE = """
import pathlib, sys
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.rehearsal import Moment, Rehearsal
plan = HostPlan.from_json(pathlib.Path(sys.argv[1]).read_bytes())
rehearsal = Rehearsal(plan, 0, int(sys.argv[2]))
rehearsal.strike(Moment.START)
rehearsal.strike(Moment.STEP, 60, lambda: print('ready', flush=True))
print('survived')
"""


@pytest.fixture
def drilled(make_plan: Callable[..., HostPlan], storage: LocalStorage) -> Callable[..., HostPlan]:
    """A plan with these drills, of attempt 3 unless said otherwise."""
    return lambda *drills, **changes: make_plan(output=storage.url, drills=drills, **changes)


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", *arguments], start_new_session=True, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def runner() -> Iterator[subprocess.Popen[str]]:
    """A process in the runner's place; it says how it ended."""
    process = start("import signal; signal.pause()")
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def struck(
    tmp_path: Path, runner: subprocess.Popen[str], drilled: Callable[..., HostPlan]
) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts a program in a process of its own that a drill strikes at step 60."""
    started: list[subprocess.Popen[str]] = []

    def strike(drill: str) -> subprocess.Popen[str]:
        path = tmp_path / "plan.json"
        path.write_bytes(drilled(drill).to_json())
        started.append(start(STRIKE, str(path), str(runner.pid)))
        return started[0]

    yield strike
    for process in started:
        process.kill()
        process.communicate()


def test_a_failure_strikes_once_in_a_jobs_life(drilled: Callable[..., HostPlan], storage: LocalStorage) -> None:
    plan = drilled("fail@step=5")
    prepared: list[int] = []
    first, next_attempt = Rehearsal(plan, 0, NOBODY), Rehearsal(plan, 0, NOBODY)
    first.strike(STEP, 4, lambda: prepared.append(4))
    with pytest.raises(DrillFailure, match=r"fail@step=5,host=0 struck at step 7; this failure was asked for"):
        first.strike(STEP, 7, lambda: prepared.append(7))
    first.strike(STEP, 8, lambda: prepared.append(8))
    next_attempt.strike(STEP, 9, lambda: prepared.append(9))
    assert prepared == [7]
    assert read_note(storage, 0) == Note(
        drill=parse_drill("fail@step=5"), attempt=3, accelerator=plan.accelerator, number=7
    )


@pytest.mark.parametrize(
    ("drill", "moment", "number", "when"),
    [
        ("fail@start", START, None, "at the start"),
        ("fail@attempt=3", START, None, "at the start"),
        ("fail@save=2", SAVE, 2, "during save 2"),
    ],
)
def test_each_moment_has_its_note(
    drilled: Callable[..., HostPlan], storage: LocalStorage, drill: str, moment: Moment, number: int | None, when: str
) -> None:
    with pytest.raises(DrillFailure, match=when):
        Rehearsal(drilled(drill), 0, NOBODY).strike(moment, number)
    note = read_note(storage, 0)
    assert note is not None and (note.when, note.number) == (when, number)


@pytest.mark.parametrize(
    ("drill", "host", "moment", "number"),
    [
        ("fail@step=5", 1, STEP, 9),  # another host's
        ("fail@step=5,attempt=2", 0, STEP, 9),  # another attempt's
        ("fail@step=5", 0, SAVE, 5),
        ("stockout@start", 0, START, None),  # the launcher's
        ("stockout@attempt=3", 0, START, None),
    ],
)
def test_what_is_not_due_here_leaves_no_note(
    drilled: Callable[..., HostPlan], storage: LocalStorage, drill: str, host: int, moment: Moment, number: int | None
) -> None:
    Rehearsal(drilled(drill), host, NOBODY).strike(moment, number)
    assert read_note(storage, 0) is None


def test_of_two_at_one_moment_the_second_waits_for_the_next_attempt(
    drilled: Callable[..., HostPlan], storage: LocalStorage
) -> None:
    plan = drilled("fail@step=5", "fail@step=6")
    for index in (0, 1):
        with pytest.raises(DrillFailure):
            Rehearsal(plan, 0, NOBODY).strike(STEP, 6)
        assert read_note(storage, index) is not None


def test_outside_a_job_nothing_strikes() -> None:
    rehearsal = Rehearsal()
    rehearsal.strike(STEP, 1)
    rehearsal.drag()


@pytest.mark.parametrize("drill", ["preempt@step=60", "stockout@step=60"])
def test_a_preemption_is_a_notice_to_the_runner(
    struck: Callable[[str], subprocess.Popen[str]], runner: subprocess.Popen[str], drill: str
) -> None:
    program = struck(drill)
    out, _ = program.communicate(timeout=60)
    assert runner.wait(timeout=60) == -signal.SIGTERM
    assert (program.returncode, out.split()) == (0, ["ready", "survived"])


def test_a_killed_host_is_gone_with_its_runner(
    struck: Callable[[str], subprocess.Popen[str]], runner: subprocess.Popen[str]
) -> None:
    program = struck("kill@step=60")
    out, _ = program.communicate(timeout=60)
    assert (program.returncode, out) == (-signal.SIGKILL, "ready\n")
    assert runner.wait(timeout=60) == -signal.SIGKILL


def test_a_program_that_hangs_heeds_no_notice(
    struck: Callable[[str], subprocess.Popen[str]], wait_until: Callable[..., None]
) -> None:
    program = struck("hang@step=60")
    assert program.stdout is not None and program.stdout.readline() == "ready\n"
    asked = psutil.Process(program.pid)
    wait_until(lambda: signal.SIGTERM in blocked(program.pid), "deafness")
    program.terminate()
    program.send_signal(signal.SIGINT)
    wait_until(lambda: asked.status() == psutil.STATUS_SLEEPING, "sleep")
    assert program.poll() is None


def blocked(pid: int) -> set[int]:
    """The signals that a process ignores or has blocked."""
    lines = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    mask = int(lines["SigIgn"], 16) & int(lines["SigBlk"], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def test_a_program_runs_out_of_memory_without_taking_the_machines(drilled: Callable[..., HostPlan]) -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError, match=r"drill oom@step=3,host=0 struck at step 3") as caught:
        Rehearsal(drilled("oom@step=3"), 0, NOBODY).strike(STEP, 3)
    assert isinstance(caught.value.__cause__, MemoryError)
    assert not str(caught.value.__cause__), "it came from an allocation, not from the drill"
    assert resource.getrlimit(resource.RLIMIT_AS) == before


class Time:
    """A clock that stands unless somebody waits or works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waits.append(round(seconds, 6))
        self.now += seconds


def slow(plan: HostPlan, time: Time, host: int = 0) -> Rehearsal:
    return Rehearsal(plan, host, NOBODY, clock=lambda: time.now, sleep=time.sleep)


def work(rehearsal: Rehearsal, time: Time, *steps: float) -> None:
    for number, seconds in enumerate(steps):
        time.now += seconds
        rehearsal.drag()
        rehearsal.strike(STEP, number)


def test_each_later_step_of_a_slow_host_takes_four_times_as_long(drilled: Callable[..., HostPlan]) -> None:
    time = Time()
    work(slow(drilled("slow@step=2"), time), time, 0.1, 0.1, 0.1, 0.2, 0.3, 0.001, 100.0)
    assert time.waits == [0.6, 0.9, SHORTEST_WAIT, LONGEST_WAIT]


def test_a_slow_host_is_none_that_stands_still(drilled: Callable[..., HostPlan]) -> None:
    time = Time()
    work(slow(drilled("slow@step=0", stall_timeout=4.0), time), time, 1.0, 3.0)
    assert time.waits == [1.0]


def test_a_host_made_slow_before_its_program_is_slow_in_it(drilled: Callable[..., HostPlan]) -> None:
    plan, time = drilled("slow@start"), Time()
    slow(plan, time).strike(START)
    work(slow(plan, time), time, 9.0, 0.1)
    work(slow(plan, time, host=1), time, 0.1, 0.1)
    work(slow(drilled("slow@start", attempt=4), time), time, 0.1, 0.1)
    assert time.waits == [0.3]


@pytest.mark.parametrize(("drill", "moment", "is_told"), [("slow@start", START, False), ("slow@step=3", STEP, True)])
def test_a_host_that_only_starts_gives_no_sign_of_life(
    drilled: Callable[..., HostPlan], storage: LocalStorage, drill: str, moment: Moment, is_told: bool
) -> None:
    Rehearsal(drilled(drill), 0, NOBODY).strike(moment, 3 if moment is STEP else None)
    events = storage.get(f"{layout.scratch(3, 0)}/{Scratch.EVENTS}")
    assert (events is not None and b'"event": "drill"' in events) is is_told


def test_a_host_that_hangs_at_its_start_is_missed(
    struck: Callable[[str], subprocess.Popen[str]], storage: LocalStorage, wait_until: Callable[..., None]
) -> None:
    struck("hang@start")
    wait_until(lambda: storage.get(f"{layout.scratch(3, 0)}/{Scratch.EVENTS}"), "a sign of life")


def test_the_driver_is_left_to_the_driver(drilled: Callable[..., HostPlan], storage: LocalStorage) -> None:
    Rehearsal(drilled("orchestrator-kill@step=2"), 0, NOBODY).strike(STEP, 2)
    note = read_note(storage, 0)
    assert note is not None and note.number == 2


@pytest.mark.parametrize("raw", [b"{", b'{"version":1}', b'{"version":1,"drill":"x","attempt":1,"accelerator":"cpu"}'])
def test_a_damaged_note_is_named(storage: LocalStorage, raw: bytes) -> None:
    storage.put("drills/0.json", raw)
    with pytest.raises(ContractError, match="The note of a drill"):
        read_note(storage, 0)


def test_the_first_note_stands(storage: LocalStorage) -> None:
    first, second = (Note(drill=parse_drill("kill@start"), attempt=n, accelerator="cpu") for n in (1, 2))
    assert take_note(storage, 0, first) and not take_note(storage, 0, second)
    assert read_note(storage, 0) == first
