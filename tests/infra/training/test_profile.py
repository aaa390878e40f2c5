"""A window of steps is recorded by JAX itself, and lies where xprof looks for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.storage import open_on_host
from prefect_tpu.infra.training.profile import Recorder, recorder
from prefect_tpu.infra.windows import Window


def nobody(*_: Any, **__: Any) -> None:
    """Hears what is recorded."""


def trained(found: Recorder, steps: int) -> None:
    advance = jax.jit(lambda x: x @ x)
    state = jnp.eye(8)
    for step in range(steps):
        state = advance(state)
        if not found.is_over:
            found.reported(step, state.block_until_ready)


def recorded(place: Path) -> list[str]:
    """The names of what JAX's own reader finds there."""
    data = jax.profiler.ProfileData.from_file(str(place))
    return [event.name for plane in data.planes for line in plane.lines for event in line.events]


def test_a_job_records_the_window_it_was_asked_for(inside_job: Callable[..., Any], capfd: Any) -> None:
    plan = inside_job(profile="skip=3,steps=2")
    heard: list[dict[str, Any]] = []
    found = recorder(lambda event, **facts: heard.append({"event": event.value, **facts}))
    assert found is not None
    trained(found, 8)
    name = "profile/plugins/profile/attempt-3/host-0.xplane.pb"
    assert heard == [{"event": "profiled", "first": 3, "last": 4, "name": name}]
    assert recorded(Path(plan.output, name)).count("train") == 2
    assert f"steps 3 to 4 are recorded: xprof --logdir {plan.output}/profile" in capfd.readouterr().err


def test_the_environment_asks_where_the_job_does_not(
    inside_job: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside_job()
    assert recorder(nobody) is None
    monkeypatch.setenv("PREFECT_TPU_PROFILE", "skip=2,steps=1")
    assert recorder(nobody) is not None
    monkeypatch.setenv("PREFECT_TPU_PROFILE", "yes")
    with pytest.raises(UsageError, match="Profile 'yes' names no steps"):
        recorder(nobody)


def test_a_program_that_ends_early_keeps_what_there_is(tmp_path: Path) -> None:
    found = Recorder(Window(skip=1, steps=100), str(tmp_path), "run", nobody, None)
    trained(found, 4)
    found.end(3)
    found.end(3)
    place = tmp_path / "profile/plugins/profile/run/host-0.xplane.pb"
    assert recorded(place).count("train") == 4, "three, and the one that had begun"


def test_a_profile_lies_in_a_bucket_as_on_a_disk(bucket: str, capfd: Any) -> None:
    found = Recorder(Window(skip=1, steps=1), f"{bucket}/jobs/digits", "attempt-1", nobody, None)
    trained(found, 2)
    stored = open_on_host(f"{bucket}/jobs/digits").list("profile")
    assert stored == ["profile/plugins/profile/attempt-1/host-0.xplane.pb"]
    assert f"xprof --logdir {bucket}/jobs/digits/profile" in capfd.readouterr().err


def test_a_profile_that_cannot_be_had_ends_no_training(tmp_path: Path, capfd: Any) -> None:
    jax.profiler.start_trace(str(tmp_path / "other"))
    try:
        found = Recorder(Window(skip=1, steps=2), str(tmp_path), "run", nobody, None)
        trained(found, 4)
    finally:
        jax.profiler.stop_trace()
    assert found.is_over and "no profile is recorded on this host: Profile has already" in capfd.readouterr().err
