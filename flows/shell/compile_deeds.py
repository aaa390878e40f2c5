"""How is a program checked from a shell? Asked about slice by slice, with a line for each, and then all together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from prefect_tpu.flows.shell.asking import named_places, named_values
from prefect_tpu.flows.shell.compiler import CompileOptions
from prefect_tpu.flows.shell.exit_status import ExitStatus
from prefect_tpu.flows.streams import answer
from prefect_tpu.infra.compiled_ahead import compile_ahead, refusal
from prefect_tpu.infra.compiler.checking import Finding, check
from prefect_tpu.infra.compiler.environment import find_compiler
from prefect_tpu.infra.compiler.question import Question, asked_in_words, find_target
from prefect_tpu.infra.compiler.wishes import Wish, broken, read_within
from prefect_tpu.infra.meshes import spelled
from prefect_tpu.infra.request import Request


def carry_out(options: CompileOptions, *, as_json: bool) -> ExitStatus:
    """Check a program. Raises `UsageError` for words that mean nothing, before anything is run."""
    wish = wish_of(options)
    with _telling(is_quiet=as_json) as telling:
        found = tuple(check(wish, find_compiler(telling.say), telling.begin))
    broken_demands = [line for one in found for line in broken(wish, one.verdict)]
    answer(json.dumps([one.verdict.to_json() for one in found]), advice="Run the same command to see it again.")
    for line in broken_demands:
        telling.say(line)
    return ExitStatus.FAILED if broken_demands or not _do_fit(found) else ExitStatus.SUCCEEDED


def before_a_job(request: Request, *, is_quiet: bool) -> None:
    """Compile the step of a job that is asked for. Raises `JobFailed` where it does not fit all its slices."""
    with _telling(is_quiet=is_quiet) as telling:
        ahead = compile_ahead(request, telling.say)
        if (why := refusal(request.name, ahead)) is not None:
            raise why


def wish_of(options: CompileOptions) -> Wish:
    params = named_values("--param", options.param or ())
    data = named_places("--data", options.data or ())
    return Wish(
        target=find_target(options.target, params, options.arguments or (), data),
        accelerators=tuple(options.accelerator),
        slices=options.slices,
        params=params,
        mesh=spelled(options.mesh),
        within=read_within(options.within or ()),
        fit=options.fit,
    )


def _do_fit(found: tuple[Finding, ...]) -> bool:
    return all(one.verdict.fits for one in found)


class _Telling:
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
def _telling(*, is_quiet: bool) -> Iterator[_Telling]:
    telling = _Telling(Console(stderr=True, highlight=False, quiet=is_quiet))
    try:
        yield telling
    finally:
        telling.end()
