"""Whatever a program does on its way to its step, whoever asks gets an answer and nothing is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
from compile_command import Compile

from prefect_tpu.infra.compiler.asking import CHILD, Asking
from prefect_tpu.infra.compiler.environment import find_compiler
from prefect_tpu.infra.compiler.fields import UnreadableAnswer
from prefect_tpu.infra.compiler.question import Question, Target, find_target
from prefect_tpu.infra.compiler.report import Problem, ProblemKind, Verdict

pytestmark = [pytest.mark.compiler, pytest.mark.timeout(600)]

T = TypeVar("T")
WAYS = Path(__file__).with_name("programs") / "ways.py"
TROUBLESOME = Path(__file__).with_name("programs") / "troublesome.py"


def target(function: str, **data: str) -> Target:
    return find_target(f"{TROUBLESOME}:{function}", {}, data=data)


def asked(target: Target, *questions: Question, patience: float = 300.0) -> list[Verdict]:
    with Asking(target, find_compiler(print), patience) as asking:
        found = [asking.ask(question) for question in questions]
    assert not _children()
    return found


def _children() -> list[psutil.Process]:
    return [one for one in psutil.Process().children(recursive=True) if CHILD in " ".join(one.cmdline())]


def problem(verdict: Verdict) -> Problem:
    assert verdict.problem is not None
    return verdict.problem


@pytest.mark.usefixtures("compiler_python")
class TestAsking:
    def test_a_program_may_print_and_read_what_it_likes(self) -> None:
        (verdict,) = asked(target("noisy"), Question(accelerator="v6e-8"))
        assert verdict.fits, verdict.problem

    @pytest.mark.parametrize("function", ["kept", "keeps_all", "falls_over_on_its_way_out", "in_a_thread"])
    def test_a_program_cannot_keep_its_step_to_itself(self, function: str) -> None:
        (verdict,) = asked(target(function), Question(accelerator="v6e-8"))
        assert verdict.fits, verdict.problem

    def test_a_copy_of_the_program_says_nothing(self) -> None:
        """What it said would be taken for the answer to the next question."""
        questions = [Question(accelerator="v6e-8", params={"batch": batch}) for batch in (1, 2, 1)]
        found = asked(target("forks"), *questions)
        assert [dict(verdict.mesh) for verdict in found] == [{"data": 8}] * 3
        sizes = [verdict.step.memory.arguments for verdict in found if verdict.step is not None]
        assert sizes[0] == sizes[2] < sizes[1]

    def test_one_that_dies_is_a_problem_and_the_next_question_is_answered(self) -> None:
        question = Question(accelerator="v6e-8")
        first, second = asked(target("dies"), question, question)
        for verdict in (first, second):
            assert problem(verdict).kind is ProblemKind.COMPILER
            assert "died by signal 9" in problem(verdict).message

    def test_one_that_hangs_is_ended(self) -> None:
        began = time.monotonic()
        (verdict,) = asked(target("hangs"), Question(accelerator="v6e-8"), patience=30.0)
        assert "took too long" in problem(verdict).message
        assert time.monotonic() - began < 120

    def test_one_that_writes_where_answers_go_is_told(self) -> None:
        with pytest.raises(UnreadableAnswer, match="Keep the program from using file descriptors"):
            asked(target("writes_everywhere"), Question(accelerator="v6e-8"))
        assert not _children()

    def test_one_that_closes_where_answers_go_is_told(self) -> None:
        (verdict,) = asked(target("closes_everything"), Question(accelerator="v6e-8"))
        assert "closed the stream that its answers go to" in problem(verdict).message

    def test_one_that_leaves_is_named(self) -> None:
        (verdict,) = asked(target("leaves"), Question(accelerator="v6e-8"))
        assert "sys.exit(3)" in problem(verdict).message
        assert problem(verdict).where == f"{TROUBLESOME.name}:{_line('sys.exit(3)')} in leaves"

    def test_a_program_finds_itself_on_one_host_of_its_job(self, tmp_path: Path) -> None:
        words = tmp_path / "words.txt"
        words.write_text("a b c")
        mesh = '{"data": 4, "tp": 4}'
        first, second = asked(
            target("looks_around", words=str(words)),
            Question(accelerator="v6e-16", mesh=mesh),
            Question(accelerator="v6e-16", mesh=mesh, params={"batch": 1024}),
        )
        assert first.fits and second.fits, (first.problem, second.problem)
        assert first.step is not None and second.step is not None
        assert second.step.memory.arguments > first.step.memory.arguments

    @pytest.mark.parametrize(
        ("way", "mesh", "exchanged"),
        [
            ("explicit", (("data", 4), ("tp", 4)), {"all-reduce"}),
            ("mixed", (("data", 16),), set()),
            ("said_inside", (("data", 16),), set()),
            ("mapped", (("data", 16),), {"all-reduce"}),
            ("modules", (("data", 16),), {"all-reduce"}),
            ("within_a_mesh", (("data", 16),), set()),
            ("mesh_for_good", (("data", 16),), {"all-reduce"}),
        ],
    )
    def test_every_way_to_write_a_step(self, way: str, mesh: tuple[tuple[str, int], ...], exchanged: set[str]) -> None:
        (verdict,) = asked(find_target(f"{WAYS}:{way}", {}), Question(accelerator="v6e-16"))
        assert verdict.step is not None, verdict.problem
        assert verdict.mesh == mesh
        assert {one.kind for one in verdict.step.collectives} == exchanged
        if way == "mixed":
            assert verdict.step.memory.aliased >= 64 * 64 * 4 // 16  # the chip fills up its tiles

    def test_a_step_may_be_a_plain_method(self) -> None:
        (verdict,) = asked(target("method"), Question(accelerator="v6e-8"))
        assert verdict.fits, verdict.problem


@pytest.mark.usefixtures("compiler_python")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)])
def test_nothing_is_left_of_a_command_that_is_ended(number: signal.Signals, status: int, tmp_path: Path) -> None:
    tool = str(Path(sys.executable).with_name("prefect-tpu"))
    command = [tool, "compile", f"{TROUBLESOME}:hangs", "-a", "v6e-8"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as asking:
        started = _wait_for(_what_it_started, "the program's own process")
        asking.send_signal(number)
        assert asking.wait(60) == status
    _wait_for(lambda: not any(_runs(one) for one in started), "the end of all of them")


def _what_it_started() -> list[psutil.Process]:
    """The compiler's process and the program's own; none before both are there."""
    found = [one for child in _children() for one in (child, *child.children())]
    return found if any(one.name() == "sleep" for one in found) else []


def _runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def _wait_for(look: Callable[[], T], what: str) -> T:
    until = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < until, f"{what} did not come"
        time.sleep(0.05)
    return found


def test_a_script(compile_: Compile) -> None:
    said = compile_(str(TROUBLESOME), "-a", "v6e-8", "--json", "--", "--fast")
    assert said.status == 0, said.out


def _line(text: str) -> int:
    return next(number for number, line in enumerate(TROUBLESOME.read_text().splitlines(), 1) if line.strip() == text)
