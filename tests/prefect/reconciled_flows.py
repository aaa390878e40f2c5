"""A flow of these tests: it writes down each time it begins and waits for a sign; its slice can go meanwhile."""

from __future__ import annotations

import time
from pathlib import Path

from prefect import flow
from prefect.runtime import flow_run

LOOK_SECONDS = 0.05


@flow
def hold(folder: str) -> int:
    """Until it may go on; how often it has begun."""
    place = Path(folder, str(flow_run.name))
    place.mkdir(parents=True, exist_ok=True)
    times = len(list(place.glob("began-*"))) + 1
    (place / f"began-{times}").touch()
    while not (place / "go").exists():
        time.sleep(LOOK_SECONDS)
    return times
