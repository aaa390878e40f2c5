"""What is the largest batch that fits, and which slices are asked about in turn? Few questions: each takes seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from prefect_tpu.infra.accelerators import curated_names, resolve
from prefect_tpu.infra.compiler.figures import FIGURES
from prefect_tpu.infra.errors import UsageError

MOST_QUESTIONS = 14  # the largest of some hundreds is found in as many
ANY_SIZE = "-*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """For the largest number that fits, by doubling and then halving. Whatever is less than one that fits does too.

    fits: the largest that is known to; 0 where none is.
    fails: the smallest that is known not to; None where none is.
    """

    first: int = 1
    most: int = MOST_QUESTIONS
    fits: int = 0
    fails: int | None = None
    asked: int = 0

    @property
    def question(self) -> int | None:
        """What is to be asked next; None where all is known, or enough was asked."""
        if self.asked == self.most:
            return None
        if self.fails is None:
            return 2 * self.fits or self.first
        return (self.fits + self.fails) // 2 if self.fails - self.fits > 1 else None

    @property
    def is_exact(self) -> bool:
        """Whether one more is known not to fit."""
        return self.fails == self.fits + 1

    def heard(self, does_fit: bool) -> Search:
        """After the answer to its question. Raises `ValueError` where it has none."""
        asked = self.question
        if asked is None:
            raise ValueError("the search is over")
        counted = replace(self, asked=self.asked + 1)
        return replace(counted, fits=asked) if does_fit else replace(counted, fails=asked)


def slices_asked(accelerator: str) -> tuple[str, ...]:
    """The accelerator itself; of `v5p-*` the named sizes that double, the smallest first.

    Raises `UsageError` where there is no such generation, or the compiler cannot be asked about it.
    """
    text = accelerator.strip().lower()
    if not text.endswith(ANY_SIZE):
        return (accelerator,)
    generation = text.removesuffix(ANY_SIZE).removeprefix("tpu-")
    if generation not in FIGURES:
        known = ", ".join(f"{name}{ANY_SIZE}" for name in FIGURES)
        raise UsageError(f"{accelerator!r} stands for no sizes that can be checked: write one of {known}.")
    chips = {name: resolve(name).chips for name in curated_names() if resolve(name).generation == generation}
    return tuple(sorted((name for name, count in chips.items() if count.bit_count() == 1), key=chips.__getitem__))
