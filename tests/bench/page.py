"""How are the figures shown? As lines on the terminal, and as docs/reference/performance.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ratios import Figure

HEAD = """\
# Performance

<!-- Written by `make bench`; change tests/bench and run it again. -->

What prefect-tpu adds to a training program, as ratios: seconds of ours ÷ seconds of the other side. Both sides of a
ratio are measured in one run and in turn, A B A B, so that a change of the machine's speed meets both. The median
counts; lowest and highest say how noisy it was.
"""

OTHERS = """\
## What others reach

Measured by us elsewhere, on another machine and a program like this one (four processes of four devices, 36 s, Orbax),
so compare the order of size only.

| what | overhead | recovery | |
| --- | ---: | ---: | --- |
| torchrun | 1.13 | 5.6 | |
| Ray Train | 2.03 | 4.1 | |
| a plain Prefect flow with a retried task | 1.14 | 1.0 | its processes train on, owned by nobody, when it is killed |
"""

_COLUMNS = ("what", "ratio", "lowest", "highest", "goal", "", "seconds", "other side", "times")


def page(figures: Sequence[Figure], facts: Iterable[tuple[str, str]]) -> str:
    """The whole page. `facts`: name and value of what the figures depend on."""
    table = [_line(_COLUMNS), "| --- |" + " ---: |" * 4 + " --- |" + " ---: |" * 3]
    table += [_line(row(figure)) for figure in figures]
    how = [_how(figure) for figure in figures]
    machine = [f"- {name}: {value}" for name, value in facts]
    parts = [HEAD, *_block("", table), *_block("## What is measured", how), *_block("## Measured on", machine), OTHERS]
    return "\n".join(parts)


def renewed(old: str, figures: Sequence[Figure], facts: Iterable[tuple[str, str]]) -> str:
    """The page with these figures measured anew; the others stay. Raises `ValueError` for one of another machine."""
    lines = old.splitlines()
    if others := [name for name, value in facts if f"- {name}: {value}" not in lines]:
        raise ValueError(f"the page was measured on another {', '.join(others)}: measure all of it")
    for figure in figures:
        _put(lines, f"| {figure.contender.what} |", _line(row(figure)), "| ")
        _put(lines, f"- **{figure.contender.what}** ÷", _how(figure), "- **")
    return "\n".join(lines) + "\n"


def _put(lines: list[str], begin: str, line: str, block: str) -> None:
    """In place of the one that begins so, else at the end of the first block of such lines."""
    first = next(at for at, text in enumerate(lines) if text.startswith(block))
    end = next((at for at in range(first, len(lines)) if not lines[at].startswith(block)), len(lines))
    at = next((at for at in range(first, end) if lines[at].startswith(begin)), None)
    lines[slice(end, end) if at is None else slice(at, at + 1)] = [line]


def row(figure: Figure) -> tuple[str, ...]:
    """One figure's cells, under the columns of the page."""
    met = {True: "met", False: "missed", None: ""}[figure.is_met]
    return (
        figure.contender.what,
        f"{figure.ratio:.3f}",
        f"{min(figure.ratios):.3f}",
        f"{max(figure.ratios):.3f}",
        _goal(figure),
        met,
        _seconds(figure.seconds),
        _seconds(figure.other_seconds),
        str(len(figure.ours)),
    )


def text(figure: Figure) -> str:
    """One figure as a line for the terminal."""
    what, ratio, lowest, highest, goal, met, seconds, other, times = row(figure)
    spread = f"{lowest}–{highest}"
    return f"{what:52} {ratio:>6} ({spread}, {times} times)  {seconds} ÷ {other} s  {goal} {met}".rstrip()


def _how(figure: Figure) -> str:
    return f"- **{figure.contender.what}** ÷ {figure.against}. {figure.contender.how}"


def _goal(figure: Figure) -> str:
    goal, limit = figure.contender.goal, figure.contender.goal_seconds
    parts = ([f"≤ {goal:.2f}"] if goal is not None else []) + ([f"≤ {limit:g} s"] if limit is not None else [])
    return ", ".join(parts)


def _seconds(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}" if value < 1 else f"{value:.2f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _block(title: str, lines: Sequence[str]) -> list[str]:
    return [*([title, ""] if title else []), "\n".join(lines) + "\n"]
