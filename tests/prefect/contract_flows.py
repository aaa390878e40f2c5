"""A flow of which every sort of worker can run a deployment. It tells by files how far it is, and waits for a sign."""

from __future__ import annotations

import os
import time
from pathlib import Path

from prefect import flow
from prefect.runtime import flow_run


@flow
def work(folder: str, holds: bool = False) -> str:
    place = Path(folder, str(flow_run.name))
    place.mkdir(parents=True, exist_ok=True)
    (place / "environment").write_text(os.environ.get("WORD", ""))
    (place / "began").touch()
    while holds and not (place / "go").exists():
        time.sleep(0.05)
    return "done"
