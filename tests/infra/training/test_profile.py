"""Who asks for a profile. How one is recorded is tried where JAX may be loaded: in tests/slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training.profile import recorder


def nobody(*_: Any, **__: Any) -> None:
    """Hears what is recorded."""


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


def test_the_job_asks(inside_job: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    inside_job(profile="skip=3,steps=2")
    monkeypatch.setenv("PREFECT_TPU_PROFILE", "yes")
    assert recorder(nobody) is not None
