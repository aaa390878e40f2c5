"""What does a person see while the compiler is asked? All of it goes to standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from prefect_tpu.infra.compiler.question import Question, asked_in_words


class Telling:
    """What is done now: a line that stays in its place on a terminal, else one for each."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("") if console.is_terminal else None

    def say(self, line: str) -> None:
        self._console.print(f"prefect-tpu: {line}", soft_wrap=True, markup=False)

    def begin(self, question: Question) -> None:
        doing = f"asking the compiler about {asked_in_words(question)}"
        if self._status is None:
            self.say(doing)
        else:
            self._status.update(escape(f"{doing} …"))
            self._status.start()

    def end(self) -> None:
        if self._status is not None:
            self._status.stop()


@contextmanager
def telling(*, is_quiet: bool) -> Iterator[Telling]:
    told = Telling(Console(stderr=True, highlight=False, quiet=is_quiet))
    try:
        yield told
    finally:
        told.end()
