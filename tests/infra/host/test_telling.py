"""How far a host is, is told when it changed, and not more often than a bucket takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Scratch, write_json
from prefect_tpu.infra.host.telling import LONGEST_SECONDS, SHORTEST_SECONDS, ProgressTeller
from prefect_tpu.infra.scratch import HostProgress
from prefect_tpu.infra.storage import LocalStorage


@pytest.fixture
def teller(storage: LocalStorage, tmp_path: Path) -> ProgressTeller:
    return ProgressTeller(storage, tmp_path, attempt=2, host=1)


def report(folder: Path, step: int) -> None:
    (folder / Scratch.PROGRESS).write_bytes(write_json({"step": step}))


def told(storage: LocalStorage) -> HostProgress:
    return HostProgress.from_json(storage.get(layout.progress(2, 1)))


def test_silence_is_not_told(storage: LocalStorage, teller: ProgressTeller) -> None:
    teller.tell()
    assert storage.get(layout.progress(2, 1)) is None


def test_hosts_that_met_are_told_before_any_step(storage: LocalStorage, teller: ProgressTeller, tmp_path: Path) -> None:
    (tmp_path / Scratch.EVENTS).write_text('{"after": 1.5, "event": "joined"}\n')
    teller.tell()
    assert told(storage) == HostProgress(joined=True)


def test_the_newest_step_is_told_and_the_same_one_once(
    storage: LocalStorage, teller: ProgressTeller, tmp_path: Path
) -> None:
    for step in (1, 2):
        report(tmp_path, step)
        teller.tell()
        assert told(storage).progress.step == step
    storage.delete(layout.progress(2, 1))
    teller.tell()
    assert storage.get(layout.progress(2, 1)) is None


def test_often_while_the_attempt_is_young(storage: LocalStorage, teller: ProgressTeller, tmp_path: Path) -> None:
    def times(begin: int, end: int) -> list[int]:
        found = []
        for second in range(begin, end):
            report(tmp_path, second)
            teller.tell_when_due(float(second))
            if told(storage).progress.step == second:
                found.append(second)
        return found

    young, old = times(0, 20), times(3000, 3040)
    assert {b - a for a, b in zip(young, young[1:], strict=False)} == {int(SHORTEST_SECONDS)}
    assert {b - a for a, b in zip(old, old[1:], strict=False)} == {int(LONGEST_SECONDS)}
