"""At which steps are trials compared? At the same ones, though each reports when it happens to.

Programs report several times a second and not every step, so two of them seldom report the same one. The rungs lie
closer at the beginning, four to each doubling, and are the same for every trial, however many steps it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

TO_A_DOUBLING = 4


def rungs(upto: int) -> Iterator[int]:
    """1, 2, … 8, 10, 12, 14, 16, 20, … as far as `upto`."""
    rung, stride = 1, 1
    while rung <= upto:
        yield rung
        if rung == 2 * TO_A_DOUBLING * stride:
            stride *= 2
        rung += stride


def climbed(curve: Mapping[int, float], above: int = 0) -> list[tuple[int, float]]:
    """(rung, value) of every rung above one that a trial has passed: on the line between the reports around it.

    Args:
        curve: steps done → value, as reported.
        above: the last rung that is known already; 0 before the first.
    """
    steps = sorted(curve)
    if not steps:
        return []
    found, index = [], 0
    for rung in rungs(steps[-1]):
        while steps[index] < rung:
            index += 1
        if rung > above and (steps[index] == rung or index > 0):
            found.append((rung, _between(curve, steps[max(index - 1, 0)], steps[index], rung)))
    return found


def _between(curve: Mapping[int, float], before: int, after: int, step: int) -> float:
    if step == after:
        return curve[after]
    share = (step - before) / (after - before)
    return curve[before] + share * (curve[after] - curve[before])
