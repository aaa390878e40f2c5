"""How is a verdict shown? One in full, several as a table, and both as Markdown for a run's page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from prefect_tpu.infra.compiler.figures import GIB
from prefect_tpu.infra.compiler.report import Collective, Crosses, Problem, ProblemKind, Step, Verdict

_APART = {
    Crosses.NONE: "on one host",
    Crosses.HOSTS: "between hosts",
    Crosses.SLICES: "between slices",
}
_WORDS = {
    ProblemKind.TOO_LARGE: "too large",
    ProblemKind.NOT_DIVISIBLE: "does not divide",
    ProblemKind.NOT_ON_TPU: "not on TPUs",
    ProblemKind.WRONG_DEVICES: "wrong devices",
    ProblemKind.PROGRAM: "program raised",
    ProblemKind.COMPILER: "compiler gave up",
}
_HEADER = ("accelerator", "chips", "verdict", "memory of a device", "batch per chip", "step at least", "estimate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A verdict in a table.

    batch_per_chip: the largest that fits, where that was asked.
    is_largest: whether a larger one is known not to fit; False where the questions were used up before, or a larger
        one failed by something else than its size.
    ended_by: that something.
    """

    verdict: Verdict
    batch_per_chip: int | None = None
    is_largest: bool = True
    ended_by: Problem | None = None


def sheet(verdict: Verdict) -> str:
    """One verdict in full, for a terminal."""
    return "\n".join(_lines(verdict))


def table(rows: Sequence[Row]) -> str:
    """One line for each, for a terminal, and why where one does not fit."""
    lines = [_HEADER, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADER))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([*shown, *_why(rows)])


def markdown(rows: Sequence[Row]) -> str:
    """The table, and each verdict in full."""
    lines = [_HEADER, ["---"] * len(_HEADER), *(_cells(row) for row in rows)]
    shown = [f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines]
    full = [f"\n```text\n{sheet(row.verdict)}\n```" for row in rows]
    return "\n".join([*shown, *full]) + "\n"


def amount(size: int) -> str:
    """Bytes, in GiB where that says something."""
    for unit, bytes_of_it in (("GiB", GIB), ("MiB", 1024**2), ("KiB", 1024)):
        if size >= bytes_of_it * (0.01 if unit == "GiB" else 1):
            return f"{size / bytes_of_it:.2f} {unit}"
    return f"{size} bytes"


def duration(seconds: float) -> str:
    """Of a step."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs" if seconds >= 1e-6 else "under 1 µs"


def flops(count: float) -> str:
    """Operations, in TFLOP where that says something."""
    for unit, operations in (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)):
        if count >= operations * (0.1 if unit == "TFLOP" else 1):
            return f"{count / operations:.2f} {unit}"
    return f"{count:.0f} FLOP"


def crossing(verdict: Verdict, apart: Crosses) -> tuple[Collective, ...]:
    """What is exchanged so far apart."""
    return tuple(one for one in verdict.step.collectives if one.crosses is apart) if verdict.step else ()


def _lines(verdict: Verdict) -> Iterator[str]:
    yield _title(verdict)
    if verdict.step is not None:
        yield from _fits(verdict, verdict.step)
    if verdict.problem is not None:
        yield from _does_not(verdict.problem)
    versions = ", ".join(f"{name} {version}" for name, version in verdict.versions.items())
    yield f"asked in {verdict.compile_seconds:.1f} s of {versions}"


def _title(verdict: Verdict) -> str:
    what = verdict.accelerator if verdict.slices == 1 else f"{verdict.slices} × {verdict.accelerator}"
    mesh = " × ".join(f"{name}={size}" for name, size in verdict.mesh)
    counted = [_counted(verdict.chips, "chip"), _counted(verdict.hosts, "host")]
    if verdict.devices != verdict.chips:
        counted.insert(1, _counted(verdict.devices, "device"))
    return f"{what}: {', '.join(counted)}{f', mesh {mesh}' if mesh else ''}"


def _fits(verdict: Verdict, step: Step) -> Iterator[str]:
    memory = step.memory
    yield f"fits: {amount(memory.total)} of {amount(memory.available)} of a device's memory"
    replaced = f" ({amount(memory.aliased)} in place of arguments)" if memory.aliased else ""
    yield (
        f"  arguments {amount(memory.arguments)}, outputs {amount(memory.outputs)}{replaced},"
        f" temporaries {amount(memory.temporaries)}, code {amount(memory.code)}"
    )
    yield f"computes: {flops(step.flops)} a step and device, at its peak in {duration(step.bound_seconds)}"
    if step.estimated_seconds is not None:
        yield f"  the compiler's estimate, without waiting for others: {duration(step.estimated_seconds)}"
    yield "mesh:"
    yield from _columns((f"  {axis.name}={axis.size}", _APART[axis.crosses]) for axis in verdict.axes)
    if not step.collectives:
        yield "exchanges nothing between devices"
        return
    yield "exchanges, a step and device:"
    yield from _columns(_exchange(one) for one in step.collectives)


def _exchange(one: Collective) -> tuple[str, ...]:
    times = f"{'' if one.is_exact else '≥ '}{_counted(one.count, 'time')}"
    return f"  {one.kind}", f"over {', '.join(one.axes) or 'nothing'}", times, amount(one.bytes), _APART[one.crosses]


def _does_not(problem: Problem) -> Iterator[str]:
    first, *rest = problem.message.splitlines() or [""]
    yield f"{_WORDS[problem.kind]}: {first}"
    yield from (f"  {line}" for line in rest)
    if problem.where:
        yield f"  at {problem.where}"
    yield f"  → {problem.advice}"


def _cells(row: Row) -> tuple[str, ...]:
    verdict, step, problem = row.verdict, row.verdict.step, row.verdict.problem
    name = verdict.accelerator if verdict.slices == 1 else f"{verdict.slices} × {verdict.accelerator}"
    estimate = step.estimated_seconds if step else None
    return (
        name,
        str(verdict.chips),
        "fits" if problem is None else _WORDS[problem.kind],
        _memory(step, problem),
        "-" if row.batch_per_chip is None else f"{'' if row.is_largest else '≥ '}{row.batch_per_chip}",
        duration(step.bound_seconds) if step else "-",
        "-" if estimate is None else duration(estimate),
    )


def _memory(step: Step | None, problem: Problem | None) -> str:
    if step is not None:
        return f"{amount(step.memory.total)} of {amount(step.memory.available)}"
    if problem is None or problem.needs is None or problem.available is None:
        return "-"
    return f"{amount(problem.needs)} of {amount(problem.available)}"


def _why(rows: Sequence[Row]) -> Iterator[str]:
    """Of problems that a table does not tell by itself, each once."""
    told: dict[tuple[str, str], str] = {}
    for row in rows:
        problem = row.verdict.problem
        if problem is not None and problem.kind is not ProblemKind.TOO_LARGE:
            told.setdefault((problem.message, problem.where), "\n".join([row.verdict.accelerator, *_does_not(problem)]))
    return (f"\n{said}" for said in told.values())


def _columns(lines: Iterable[tuple[str, ...]]) -> Iterator[str]:
    found = list(lines)
    widths = [max(len(cell) for cell in column) for column in zip(*found, strict=True)]
    for line in found:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
