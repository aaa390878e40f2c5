"""Why was there no verdict? What the program, JAX or the compiler raised, as a problem with an advice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from prefect_tpu.infra.compiler.raised import Raised, place_of
from prefect_tpu.infra.compiler.refusals import REFUSALS, problem
from prefect_tpu.infra.compiler.report import Problem, ProblemKind

LONGEST_MESSAGE = 2000  # characters of what was raised, where nothing better is known
_OURS = frozenset({"UsageError"})  # it says all by itself
_OF_COMPILER = frozenset({"JaxRuntimeError", "XlaRuntimeError"})


def problem_of(raised: Raised, libraries: Iterable[str] = ()) -> Problem:
    """The problem that it is; `libraries` are folders whose files are not the person's own."""
    return replace(_in_table(raised) or _unknown(raised), where=place_of(raised, libraries))


def _in_table(raised: Raised) -> Problem | None:
    for pattern, make in REFUSALS:
        found = pattern.search(raised.text)
        if found and (made := make(found, raised)):
            return made
    return None


def _unknown(raised: Raised) -> Problem:
    said = raised.text if raised.type in _OURS else f"{raised.type}: {raised.text}".strip()
    said = said if len(said) <= LONGEST_MESSAGE else f"{said[:LONGEST_MESSAGE]}…"
    if raised.type in _OF_COMPILER:
        advice = "Look at what the compiler says of the program; a smaller step may tell more."
        return problem(ProblemKind.COMPILER, said, advice)
    advice = "Mend the program: it raised this before its step was compiled."
    return problem(ProblemKind.PROGRAM, said, advice)
