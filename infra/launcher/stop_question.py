"""Does somebody want this job to stop? Asked of whoever may know, without waiting long for the answer."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

ASK_SECONDS = 2.0  # between an answer and the next question
PATIENCE_SECONDS = 1.0  # an answer that takes longer counts when it comes: it must not hold up what is due
LAST_PATIENCE_SECONDS = 5.0  # when the answer decides how the driver leaves

AsksToStop = Callable[[], str | None]


def never_stops() -> str | None:
    """Nobody wants a stop."""
    return None


class StopQuestion:
    """One question at a time, in a thread beside everything else."""

    def __init__(self, ask: AsksToStop, tasks: TaskGroup) -> None:
        self._ask, self._tasks = ask, tasks
        self._open: anyio.Event | None = None
        self._answer: str | Exception | None = None
        self._next = 0.0

    async def reason(self, *, now: bool = False) -> str | None:
        """Why the job shall stop; None where nobody wants it, and while there is no answer.

        now: there will be no later: ask at once, and have more patience.
        """
        if self._ask is never_stops:  # of the many that one process may drive, none needs a thread for that
            return None
        is_new = self._open is None
        if is_new and not now and anyio.current_time() < self._next:
            return None
        question = self._open or self._put()
        if is_new or now:
            with anyio.move_on_after(LAST_PATIENCE_SECONDS if now else PATIENCE_SECONDS):
                await question.wait()
        answer = self._heard(question)
        is_old = now and not is_new and question.is_set()  # asked before whatever makes the driver go
        return await self.reason(now=True) if is_old and answer is None else answer

    def _put(self) -> anyio.Event:
        self._open = anyio.Event()
        self._tasks.start_soon(self._wait_for_answer, self._open)
        return self._open

    def _heard(self, question: anyio.Event) -> str | None:
        if not question.is_set():
            return None
        self._open, self._next = None, anyio.current_time() + ASK_SECONDS
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def _wait_for_answer(self, question: anyio.Event) -> None:
        try:
            self._answer = await anyio.to_thread.run_sync(self._ask, abandon_on_cancel=True)
        except Exception as exc:  # raised where somebody waits for the answer, not here where nobody does
            self._answer = exc
        question.set()
