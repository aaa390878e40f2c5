"""Records profiles with JAX itself, for test_profiles.py: `python recorded_program.py FOLDER BUCKET`, facts as JSON."""

from __future__ import annotations

import contextlib
import io
import json
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from prefect_tpu.infra.storage import open_on_host
from prefect_tpu.infra.training.profile import Recorder
from prefect_tpu.infra.windows import Window

HEARD: list[dict[str, Any]] = []


def trained(output: str, count: int, **window: int) -> Recorder:
    found = Recorder(Window(**window), output, "attempt-3", lambda event, **facts: HEARD.append(facts), None)
    advance, state = jax.jit(lambda x: x @ x), jnp.eye(8)
    for step in range(count):
        state = advance(state)
        if not found.is_over:
            found.reported(step, state.block_until_ready)
    return found


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """As far as this process can tell: no file of it may grow."""
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, most)


def named_steps(place: Path) -> int:
    """How many JAX's own reader finds."""
    planes = jax.profiler.ProfileData.from_file(str(place)).planes
    return [event.name for plane in planes for line in plane.lines for event in line.events].count("train")


def main(folder: Path, bucket: str) -> dict[str, Any]:
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        trained(str(folder / "whole"), 8, skip=3, steps=2)
        early = trained(str(folder / "early"), 4, skip=1, steps=100)
        early.end(3)
        early.end(3)
        trained(bucket, 2, skip=1, steps=1)
        jax.profiler.start_trace(str(folder / "other"))
        hindered = trained(str(folder / "hindered"), 4, skip=1, steps=2)
        jax.profiler.stop_trace()
        trained(str(folder / "late"), 1, skip=1, steps=2).end(0)
        full = trained(str(folder / "full"), 2, skip=1, steps=2)
        with full_disk():
            full.end(2)
    name = "profile/plugins/profile/attempt-3/host-0.xplane.pb"
    return {
        "heard": HEARD,
        "said": said.getvalue().splitlines(),
        "whole": named_steps(folder / "whole" / name),
        "early": named_steps(folder / "early" / name),
        "bucket": open_on_host(bucket).list("profile"),
        "hindered": hindered.is_over,
    }


if __name__ == "__main__":
    json.dump(main(Path(sys.argv[1]), sys.argv[2]), sys.stdout)
