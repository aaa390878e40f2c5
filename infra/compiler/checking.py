"""What becomes of a wish? Slice by slice, the compiler is asked until all is known that was wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prefect_tpu.infra.compiler.asking import Asking
from prefect_tpu.infra.compiler.environment import Compiler
from prefect_tpu.infra.compiler.question import Question
from prefect_tpu.infra.compiler.report import Verdict
from prefect_tpu.infra.compiler.wishes import Wish, candidates, question

Begin = Callable[[Question], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found out for one accelerator of a wish.

    verdict: of the slice, and where a batch was looked for of the largest that fits.
    batch_per_chip: that one; None where none was looked for, or none fits.
    """

    verdict: Verdict
    batch_per_chip: int | None = None


def check(wish: Wish, compiler: Compiler, begin: Begin) -> Iterator[Finding]:
    """A finding for each accelerator; of `v5p-*` for each size up to the one that fits.

    begin: hears of each question before it is asked.
    """
    named = [candidates(accelerator) for accelerator in wish.accelerators]  # raises before anything is asked
    with Asking(wish.target, compiler) as asking:
        for sizes in named:
            for accelerator in sizes:
                asked = question(wish, accelerator)
                begin(asked)
                verdict = asking.ask(asked)
                yield Finding(verdict=verdict)
                if verdict.fits:
                    break
