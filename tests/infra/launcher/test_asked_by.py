"""Who asked for a job is kept, and the last one counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ContractError
from prefect_tpu.infra.launcher.asked_by import AskedBy, read_asked_by, write_asked_by
from prefect_tpu.infra.storage import LocalStorage

RUN = "0192f7c8-8d2c-7bb0-a94a-2f0d3b1c9d11"


def test_nobody_asked(tmp_path: Path) -> None:
    assert read_asked_by(LocalStorage(str(tmp_path))) is None


def test_the_last_one_counts(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    write_asked_by(storage, AskedBy(flow_run="an-earlier-one", work_pool="pool"))
    write_asked_by(storage, AskedBy(flow_run=RUN))
    assert read_asked_by(storage) == AskedBy(flow_run=RUN, work_pool=None)


def test_a_note_that_names_no_run_is_damaged(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.put(layout.ASKED_BY, b'{"version": 1}')
    with pytest.raises(ContractError, match="asked_by.json"):
        read_asked_by(storage)
