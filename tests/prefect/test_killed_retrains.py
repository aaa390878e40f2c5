"""Runs of `retrain` that are killed at any moment, and run again."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from typing import Any

import pytest
from prefect_server import Server
from retrainings import Retrainings

KILLS = int(os.environ.get("RETRAIN_KILLS", "6"))
SEED = int(os.environ.get("SEED", "8"))
LONGEST_SECONDS = 6.0  # from the start of a run to its kill: most of a run's whole life

pytestmark = [pytest.mark.prefect, pytest.mark.long, pytest.mark.timeout(200 + 40 * KILLS)]


def test_killed_at_many_moments(server: Server, model: Retrainings) -> None:
    """The champion is never lost or half-written, and no candidate is trained twice."""
    chance = random.Random(SEED)
    options = {"params": {"steps": 20, "seconds": 0.05}}
    kills, night = 0, 0
    while kills < KILLS:
        night += 1
        model.learn_from(*[8.0] * night)
        before = model.champion()
        while (run := model.start(**options)) and kills < KILLS:
            _kill_after(run, chance.uniform(0.0, LONGEST_SECONDS))
            kills += 1
            assert model.champion() in (before, night)
            if model.champion() == night:
                break
        found = run.result() if run.is_alive or run.outcome.exists() else model.run(**options)
        assert found["name"] in ("Promoted", "Skipped", "Kept"), found
    history = model.registry.history()[::-1]
    assert [entry.number for entry in history] == list(range(1, len(history) + 1))
    assert set(Counter(entry.candidate for entry in history).values()) == {1}
    for number in (entry.candidate for entry in history if entry.candidate is not None):
        lives = [(start["attempt"], start["host"]) for start in model.starts_of(number)]
        assert len(lives) == len(set(lives)), f"candidate {number} was trained twice"
        assert model.value(number)["w"] == pytest.approx(8.0, abs=1e-3)
    champion = model.registry.champion()
    assert champion is not None and champion.number == history[-1].champion


def _kill_after(run: Any, seconds: float) -> None:
    end = time.monotonic() + seconds  # what is tried is this very moment
    while run.is_alive and time.monotonic() < end:
        time.sleep(0.01)
    if run.is_alive:
        run.signal(signal.SIGKILL)
    run.wait()
