"""What becomes of a wish? Slice by slice, the compiler is asked until all is known that was wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prefect_tpu.infra.compiler.asking import Asking
from prefect_tpu.infra.compiler.environment import Compiler
from prefect_tpu.infra.compiler.fitting import Search
from prefect_tpu.infra.compiler.question import Question
from prefect_tpu.infra.compiler.render import Row
from prefect_tpu.infra.compiler.report import ProblemKind, Verdict
from prefect_tpu.infra.compiler.wishes import Wish, batch_of, candidates, first_of, question

Ask = Callable[[Question], Verdict]


def check(wish: Wish, compiler: Compiler, begin: Callable[[Question], None]) -> Iterator[Row]:
    """A row for each accelerator; of `v5p-*` for each size up to the one that fits.

    begin: hears of each question before it is asked.

    Raises `UsageError` for an accelerator that the compiler does not know, before anything is asked.
    """
    named = [candidates(accelerator) for accelerator in wish.accelerators]
    with Asking(wish.target, compiler) as asking:

        def ask(asked: Question) -> Verdict:
            begin(asked)
            return asking.ask(asked)

        for sizes in named:
            for accelerator in sizes:
                row = _largest(wish, accelerator, ask) if wish.fit else Row(verdict=ask(question(wish, accelerator)))
                yield row
                if row.verdict.fits:
                    break


def _largest(wish: Wish, accelerator: str, ask: Ask) -> Row:
    """With the largest batch that fits; where none does, why the smallest does not.

    What is no matter of size ends the search: a larger or smaller batch would not mend it.
    """
    search, best, why, ended_by = Search(first=first_of(wish, accelerator)), None, None, None
    while (each := search.question) is not None:
        verdict = ask(question(wish, accelerator, **{wish.fit: batch_of(wish, accelerator, each)}))
        if not verdict.fits and not _is_too_large(verdict):
            if best is None:
                return Row(verdict=verdict)
            ended_by = verdict.problem  # such as data that has no more rows: what fits is known all the same
            break
        best, why = (verdict, why) if verdict.fits else (best, verdict)
        search = search.heard(verdict.fits)
    found = best or why
    assert found is not None, "a search asks once at least"
    batch = search.fits * found.devices // found.chips or None
    return Row(verdict=found, batch_per_chip=batch, is_largest=search.is_exact, ended_by=ended_by)


def _is_too_large(verdict: Verdict) -> bool:
    return verdict.problem is not None and verdict.problem.kind is ProblemKind.TOO_LARGE
