"""A wish to stop is heard when it is told, and whoever does not answer holds up nothing."""

from __future__ import annotations

import threading

import anyio
import anyio.to_thread
import pytest

from prefect_tpu.infra.launcher.stop_question import StopQuestion, never_stops

pytestmark = [pytest.mark.slices, pytest.mark.anyio]  # it waits for real time to pass


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_the_answer_is_heard_and_asked_for_again_later() -> None:
    answers = iter([None, "enough"])
    async with anyio.create_task_group() as tasks:
        question = StopQuestion(lambda: next(answers), tasks)
        assert await question.reason() is None
        assert await question.reason() is None, "too early for another question"
        assert await question.reason(now=True) == "enough"


async def test_an_answer_that_takes_long_counts_when_it_comes() -> None:
    knows = threading.Event()

    def ask() -> str:
        knows.wait()
        return "enough"

    async with anyio.create_task_group() as tasks:
        question = StopQuestion(ask, tasks)
        assert await question.reason() is None
        assert await question.reason() is None
        knows.set()
        with anyio.fail_after(10):
            while (reason := await question.reason()) is None:
                await anyio.sleep(0.01)
        assert reason == "enough"


async def test_who_must_go_waits_for_the_question_that_is_open() -> None:
    knows = threading.Event()

    def ask() -> str:
        knows.wait()
        return "enough"

    async with anyio.create_task_group() as tasks:
        question = StopQuestion(ask, tasks)
        assert await question.reason() is None
        tasks.start_soon(anyio.to_thread.run_sync, knows.set)
        assert await question.reason(now=True) == "enough"


async def test_nobody_waits_for_a_question_that_is_open_when_all_is_over() -> None:
    knows = threading.Event()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            assert await StopQuestion(lambda: str(knows.wait()), tasks).reason() is None
            tasks.cancel_scope.cancel()
    knows.set()


async def test_a_defect_of_who_is_asked_is_raised_where_the_answer_is_awaited() -> None:
    def ask() -> str:
        raise KeyError("flow run")

    async with anyio.create_task_group() as tasks:
        question = StopQuestion(ask, tasks)
        with pytest.raises(KeyError):
            await question.reason()
        assert await StopQuestion(never_stops, tasks).reason() is None
