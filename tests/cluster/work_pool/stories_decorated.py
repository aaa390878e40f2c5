"""Flows bound to a pool by a decorator, submitted from a script: they have no deployment, and a caller who waits."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect_server import running, wait_for
from scenes import Played, Scene, Story, played
from slice_runs import SliceRun
from stories_ended import cancel

SCRIPT = Path(__file__).with_name("decorated.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """What came of the run, and what its caller was told."""

    played: Played
    told: dict[str, Any]


def called(way: str, then: Callable[[SliceRun], None], end: str = "return") -> Callable[[Scene], Called]:
    def play(scene: Scene) -> Called:
        pool, folder = scene.pool, scene.pool.workers.folder / scene.name
        folder.mkdir()
        run_file, outcome_file = folder / "run", folder / "outcome.json"
        command = [sys.executable, "-P", str(SCRIPT), pool.name, way, end, str(run_file), str(outcome_file)]
        environment = {**pool.workers.environment, "XDG_DATA_HOME": str(folder)}
        with running(command, environment, folder, "script") as script:
            said = folder / "script.log"
            wait_for(lambda: _text(run_file) or script.poll() is not None, "the script's run")
            assert _text(run_file), said.read_text()
            run = pool.run(_text(run_file))
            run.wait_until_up(1, 1)
            then(run)
            found = played(run, pool)
            wait_for(lambda: _text(outcome_file) or script.poll() is not None, "what the script was told")
            assert _text(outcome_file), said.read_text()
            return Called(played=found, told=json.loads(_text(outcome_file)))

    return play


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


STORIES = [
    Story(name="decorated-returns", play=called("submit_to_work_pool", SliceRun.let_go_on)),
    Story(name="decorated-cancelled", play=called("submit_to_work_pool", cancel)),
    Story(name="decorated-crashes", play=called("submit_to_work_pool", SliceRun.let_go_on, "killed")),
    Story(name="decorated-alone", play=called("submit", cancel)),
]
