"""The value of a trial is what its program returned, else what it reported last; what is no number is none."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.host.values import keep_value
from prefect_tpu.infra.job import AttemptSummary, JobResult
from prefect_tpu.infra.launcher import values
from prefect_tpu.infra.storage import LocalStorage
from prefect_tpu.infra.sweep.trial_job import TrialJob

NAN = float("nan")


def reported(storage: LocalStorage, *losses: float) -> None:
    """One after the other, from the first step on."""
    lines = [json.dumps({"event": "step", "step": step, "loss": loss}) for step, loss in enumerate(losses)]
    storage.put(layout.host_ledger(1, 0, 0), "\n".join(lines).encode())


def ended(storage: LocalStorage, value: Any) -> JobResult:
    """As a job ends whose leader returned this."""
    place = Path(storage.where(layout.result(1, 0)))
    place.parent.mkdir(parents=True)
    record = HostRecord(attempt=1, host=0, exit_code=0, result=keep_value(value, place))
    storage.put(layout.record(1, 0), record.to_json())
    attempt = AttemptSummary(number=1, outcome="succeeded", accelerator="cpu", started=0.0, ended=1.0, failure=None)
    found = values.read(storage, 1)
    return JobResult(job="j", state="succeeded", attempts=(attempt,), output=storage.url, value=found, failure=None)


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        ({"loss": 0.25, "steps": 3}, 0.25),
        ({"loss": 2}, 2.0),
        ({"loss": np.float32(0.25)}, 0.25),
        ({"loss": 0.25, "all": [0.5] * 20_000}, 0.25),  # more than a result repeats
        ({"loss": NAN}, None),
        ({"loss": float("inf")}, None),
        ({"loss": np.float32("nan")}, None),
        ({"loss": 10**400}, None),
        ({"loss": True}, None),
        ({"loss": "0.25"}, None),
        ({"other": 0.25}, 0.5),
        ("0.25", 0.5),
        (0.25, 0.5),
        (None, 0.5),
    ],
)
def test_what_was_returned_counts_before_what_was_reported(tmp_path: Path, returned: Any, value: float | None) -> None:
    storage = LocalStorage(tmp_path / "j")
    reported(storage, 2.0, 0.5)
    assert TrialJob(storage, "loss").value(ended(storage, returned)) == value


@pytest.mark.parametrize(("losses", "value"), [((), None), ((2.0, 0.5), 0.5), ((2.0, NAN), None), ((NAN, 2.0), 2.0)])
def test_what_has_come_to_nothing_has_no_value(tmp_path: Path, losses: tuple[float, ...], value: float | None) -> None:
    storage = LocalStorage(tmp_path / "j")
    reported(storage, *losses)
    assert TrialJob(storage, "loss").value(ended(storage, None)) == value


def test_only_numbers_are_compared(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "j")
    reported(storage, 2.0, NAN, 0.5)
    assert TrialJob(storage, "loss").curve() == {1: 2.0, 3: 0.5}


def test_what_cannot_be_read_here_is_as_if_nothing_was_returned(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "j")
    reported(storage, 0.5)
    assert TrialJob(storage, "loss").value(ended(storage, AtHomeOnly())) == 0.5


def test_what_was_lost_is_told(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "j")
    result = ended(storage, {"loss": np.float32(0.25)})
    storage.delete(layout.result(1, 0))
    with pytest.raises(PlatformError, match="is missing or was changed"):
        TrialJob(storage, "loss").value(result)


class AtHomeOnly:
    """What a host can pickle and this machine cannot read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _fail, ()


def _fail() -> None:
    raise pickle.UnpicklingError("a class of the host's")
