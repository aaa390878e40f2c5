"""Random sequences of drills: each job ends exactly as the drills and its program foretell.

`make test-drills SEEDS=200` tries more; a failure says how it is played again alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import ANY

import pytest
from foresight import LARGE, REAL, SMALL, UNDISTURBED, Foresight, Sequence, draw, total

pytestmark = [pytest.mark.slices, pytest.mark.drills]

SEEDS = int(os.environ.get("DRILL_SEEDS", "8"))
FIRST = int(os.environ.get("DRILL_FIRST", "1"))
ON_MORE_HOSTS, ON_JAX = 4, 3  # of these seeds as many are played there too
AT_ONCE = 6


def sequences() -> list[Sequence]:
    seeds = range(FIRST, SEEDS + 1)
    larger = [draw(seed, LARGE) for seed in seeds[:ON_MORE_HOSTS]]
    real = [draw(seed, REAL) for seed in seeds[:ON_JAX]]
    return [UNDISTURBED, *real, *larger, *(draw(seed, SMALL) for seed in seeds)]


@pytest.fixture(scope="module")
def ends(
    request: pytest.FixtureRequest,
    new_machine: Callable[[], Any],
    play_on: Callable[..., Any],
    left_on: Callable[..., Any],
) -> Iterator[dict[str, Any]]:
    """How each chosen sequence ended, by its name, and what all of them left."""
    chosen = [item.name for item in request.session.items]
    played = [s for s in sequences() if f"test_a_job_ends_as_its_drills_foretell[{s.name}]" in chosen]
    if any(sequence.arena is REAL for sequence in played):
        played = [UNDISTURBED, *(sequence for sequence in played if sequence != UNDISTURBED)]

    def play(sequence: Sequence) -> tuple[str, Any]:
        arena = sequence.arena
        own = {"max_failures": sequence.max_failures, "drills": tuple(map(str, sequence.drills))}
        asked = {
            "name": sequence.name,
            "program": arena.program,
            "accelerators": arena.accelerators,
            "params": arena.params,
            "data": arena.data,
            "settings": {**arena.settings, **own},
        }
        return sequence.name, play_on(machine, asked, slices=AT_ONCE)

    with new_machine() as machine, ThreadPoolExecutor(AT_ONCE) as pool:
        ended = dict(pool.map(play, played))
        yield {**ended, "left": left_on(machine, AT_ONCE)}


@pytest.mark.timeout(600 + 30 * SEEDS)
@pytest.mark.parametrize("sequence", sequences(), ids=lambda sequence: sequence.name)
def test_a_job_ends_as_its_drills_foretell(ends: dict[str, Any], sequence: Sequence) -> None:
    end, foreseen = ends[sequence.name], Foresight(sequence).play()
    told = f"{sequence}\nforetold: {foreseen.attempts}, then {foreseen.failure}\n{end}"
    assert end.attempts == foreseen.attempts, told
    assert end.failure == foreseen.failure, told
    assert end.result["state"] == ("succeeded" if foreseen.failure is None else "failed"), told
    assert end.result["value"] == (None if foreseen.failure else undisturbed(ends, sequence, foreseen)), told
    assert end.deaths == foreseen.deaths, told
    assert end.traces == (), told
    assert len(end.without_effect) == len(sequence.drills) - len(foreseen.struck), told


def undisturbed(ends: dict[str, Any], sequence: Sequence, foreseen: Foresight) -> Any:
    """The value to the last bit; on a slice of another shape sums are rounded in another order."""
    if sequence.arena is not REAL:
        return {"total": total(), "steps": SMALL.steps}
    value = ends[UNDISTURBED.name].result["value"]
    if len({accelerator for _, _, accelerator in foreseen.attempts}) == 1:
        return value
    return {**value, "loss": pytest.approx(value["loss"], rel=1e-3), "digest": ANY, "accuracy": ANY}


@pytest.mark.timeout(600 + 30 * SEEDS)
def test_nothing_is_left(ends: dict[str, Any]) -> None:
    assert ends["left"] == {"processes": [], "slices": [], "ports": []}
