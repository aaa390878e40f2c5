"""A driver killed at any moment and run again: one live attempt at any time, the right result, no process left."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from prefect_tpu.infra.backends.local_slices import LocalSlices
from prefect_tpu.infra.places import data_folder

pytestmark = [pytest.mark.slices, pytest.mark.timeout(150)]

SEED, MOMENTS = 20, 6
AT_ONCE = 3
PARAMS = {"steps": 12, "seconds": 0.04}


@pytest.fixture(scope="module")
def ends(new_machine: Callable[[], Any], lay_down_on: Callable[..., Any]) -> list[dict[str, Any]]:
    """One job per moment, each on a machine of its own: its driver killed then, and another one started at once."""

    def undisturbed() -> float:
        with new_machine() as machine:
            job = lay_down_on(machine, "counter.py:main", PARAMS)
            began = time.monotonic()
            assert job.drive().result()["state"] == "succeeded"
            return time.monotonic() - began

    def disturbed(after: float) -> dict[str, Any]:
        with new_machine() as machine:
            job = lay_down_on(machine, "counter.py:main", PARAMS)
            driver = job.drive()
            time.sleep(after)  # the moment itself
            driver.kill()
            again = job.drive()
            result = again.result()
            return {
                "after": after,
                "code": again.wait(),
                "result": result,
                "adopted": "found running" in again.err,
                "overlaps": (job.storage.root / "counter" / "overlaps").exists(),
                "lives": (job.storage.root / "counter" / "lives.jsonl").read_text().count("began"),
                "left": machine.left(),
                "is_free": is_slice_free(machine),
            }

    longest = undisturbed()
    chance = random.Random(SEED)
    moments = [chance.uniform(0.1, 1.0) * longest for _ in range(MOMENTS)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(disturbed, moments))


def is_slice_free(machine: Any) -> bool:
    slices = LocalSlices(data_folder(machine.environment) / "slices", 1)
    taken = slices.take("test")
    if isinstance(taken, str):
        return False
    slices.give_back(taken)
    return True


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_killed_driver_loses_nothing(ends: list[dict[str, Any]], moment: int) -> None:
    end = ends[moment]
    result = end["result"]
    assert (end["code"], result["state"]) == (0, "succeeded"), end
    assert result["value"]["total"] == sum(range(PARAMS["steps"])), end
    assert [attempt["outcome"] for attempt in result["attempts"]] == ["succeeded"], end
    assert not end["overlaps"], "two attempts were alive at once"
    assert end["lives"] == 2, "each host's program began once"
    assert end["left"] == []
    assert end["is_free"], "the slice was not given back"


def test_some_moments_fall_into_a_running_attempt(ends: list[dict[str, Any]]) -> None:
    assert any(end["adopted"] for end in ends), [end["after"] for end in ends]
