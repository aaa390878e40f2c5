"""`retrain` and `sweep` with a saved cluster: models in a bucket, their programs in pods, and a run that is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import CLONE
from missions import processes
from script import Script
from witness import left_of
from world import NAMESPACE, World

from prefect_tpu.infra.launcher import checkpoints
from prefect_tpu.infra.models.registry import Registry
from prefect_tpu.infra.storage import open_storage

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]

NIGHTLY = CLONE / "docs" / "examples" / "nightly"
PATIENCE = 300.0
IN_CLUSTER = {"cluster": "block:training", "pods": {"node_selector": {"tests": "nights"}}}
CALL = """
import json, sys
import prefect_tpu
name, options = sys.argv[1], json.loads(sys.argv[2])
found = getattr(prefect_tpu, name)(**options)
print(json.dumps(found if isinstance(found, dict) else found.to_json()))
"""


@pytest.fixture(scope="module")
def grounds(here: World) -> Iterator[World]:
    """The saved cluster has two nodes without chips for these tests."""
    names = here.cluster.add_cpus("nights", 2)
    for name in names:
        here.cluster.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"tests": "nights"}}})
    here.save()
    yield here
    here.cluster.delete_nodes(*names)


@pytest.fixture(scope="module")
def pictures(grounds: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    with _script(grounds, str(NIGHTLY / "nights.py"), "1", str(folder)) as script:
        assert script.wait(PATIENCE) == 0, script.told()
    return folder


def night(pictures: Path, **more: Any) -> dict[str, Any]:
    return {
        "model": "reader",
        "program": f"{NIGHTLY / 'reader.py'}:main",
        "evaluate": f"{NIGHTLY / 'reader.py'}:evaluate",
        "metric": "accuracy",
        "mode": "max",
        "accelerator": "cpu-2x1",
        "data": {"digits": str(pictures / "digits.npz")},
        "held_out": {"held_out": str(pictures / "held_out.npz")},
        "training": {"checkpoint_every": 0.5, "drills": ["slow@step=5"]},
        **IN_CLUSTER,
        **more,
    }


def test_a_retraining_that_was_killed_goes_on_in_the_same_pods_and_promotes(grounds: World, pictures: Path) -> None:
    asked = night(pictures, params={"steps": 60})
    with _call(grounds, "retrain", asked) as killed:
        bucket = open_storage(grounds.output).inside("reader-1")
        killed.until(lambda: checkpoints.saved_step(bucket, 1), "the first checkpoint", PATIENCE)
        killed.kill()
    found = _result(grounds, "retrain", asked)
    assert (found["decision"], found["champion"]) == ("promoted", 1), found
    registry = Registry(grounds.output, "reader")
    assert registry.champion().checkpoint.startswith(f"{grounds.output}/reader-1/")
    attempts = json.loads(bucket.get("result.json") or b"{}")["attempts"]
    assert [attempt["outcome"] for attempt in attempts] == ["succeeded"], "hosts live on while nobody drives them"


def test_the_next_night_starts_with_the_champion_of_the_bucket(grounds: World, pictures: Path) -> None:
    found = _result(grounds, "retrain", night(pictures, params={"steps": 60}, force=True))
    assert (found["candidate"], found["rival"]["accuracy"] > 0.3) == (2, True), found
    assert open_storage(grounds.output).inside("reader-2").get("result.json") is not None


def test_a_sweep_keeps_its_chips_and_its_best_trial_in_the_bucket(grounds: World, pictures: Path) -> None:
    found = _result(
        grounds,
        "sweep",
        {
            "program": f"{NIGHTLY / 'reader.py'}:main",
            "space": {"steps": [2, 40]},
            "accelerator": "cpu-2x1",
            "sampler": "grid",
            "trials": 2,
            "pruner": "none",
            "name": "lengths",
            "data": {"digits": str(pictures / "digits.npz")},
            **IN_CLUSTER,
        },
    )
    assert found["params"] == {"steps": 40}, found
    assert found["checkpoint"].startswith(f"{grounds.output}/lengths-"), found


def test_nothing_is_left(grounds: World) -> None:
    assert left_of(grounds.cluster.api, NAMESPACE) == []
    assert processes(grounds.output) == []


def _result(world: World, name: str, options: dict[str, Any]) -> dict[str, Any]:
    with _call(world, name, options) as script:
        assert script.wait(PATIENCE) == 0, script.told()
        return script.result()


def _call(world: World, name: str, options: dict[str, Any]) -> Script:
    return _script(world, "-c", CALL, name, json.dumps(options))


def _script(world: World, *words: str) -> Script:
    return Script(world.python(*words), world.environment, lambda _: None)
