"""A person's script with a flow bound to a pool: submits it in one of its ways, and leaves what came of it in a file.

decorated.py POOL WAY END RUN_FILE OUTCOME_FILE
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.runtime import flow_run

import prefect_tpu


def bound(pool: str) -> Any:
    @prefect_tpu.tpu_slice(work_pool=pool, accelerator="cpu-1x1", max_preemptions=0)
    @flow
    def hold(end: str) -> int:
        """Says that it is up, and waits to be told to end."""
        place = Path("/signs", str(flow_run.get_id()))
        place.mkdir(parents=True, exist_ok=True)
        (place / "up-1-0").touch()
        while not (place / "go").exists():
            time.sleep(0.1)
        if end == "killed":
            os.kill(os.getppid(), 9)  # the engine's parent; nobody is left to say anything to Prefect
            os.kill(os.getpid(), 9)
        return 42

    return hold


def main(pool: str, way: str, end: str, run_file: str, outcome_file: str) -> None:
    run = getattr(bound(pool), way)(end=end)
    Path(run_file).write_text(str(run.flow_run_id))
    try:
        outcome = {"value": run.result()}
    except Exception as exc:
        outcome = {"error": type(exc).__name__, "message": str(exc)}
    Path(outcome_file).write_text(json.dumps({**outcome, "state": run.state.name}))


if __name__ == "__main__":
    main(*sys.argv[1:])
