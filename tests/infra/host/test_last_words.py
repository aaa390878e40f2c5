"""What one part of a host's end cannot bring holds up no other, and the record least."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import ExitCode, HostRecord, Scratch
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.host.assignment import Assignment
from prefect_tpu.infra.host.last_words import LastWords
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import LocalStorage

RECORD = HostRecord(attempt=3, host=0, exit_code=ExitCode.DONE)


@pytest.fixture
def given(storage: LocalStorage, make_plan: Callable[..., HostPlan], tmp_path: Path) -> Assignment:
    """A host with a disk of its own."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    plan = make_plan(output=storage.url, scratch=str(tmp_path))
    storage.put(layout.plan(3), plan.to_json())
    return Assignment(plan=plan, host=0, storage=storage, scratch=scratch, plan_path=scratch / "plan", archive=None)


@pytest.fixture
def words(given: Assignment) -> LastWords:
    return LastWords(given, lambda: 0.0)


@pytest.mark.parametrize(
    ("error", "said"), [(PlatformError("The bucket is gone."), "is gone"), (OSError(errno.EIO, "disk"), "disk")]
)
def test_what_is_refused_is_said_and_the_rest_is_brought(
    words: LastWords, storage: LocalStorage, capsys: pytest.CaptureFixture[str], error: Exception, said: str
) -> None:
    brought = []

    def refuse() -> None:
        raise error

    words.leave(RECORD, refuse, lambda: brought.append("log"))
    assert brought == ["log"] and said in capsys.readouterr().err
    assert HostRecord.from_json(storage.get(layout.record(3, 0)) or b"") == RECORD


def test_a_value_that_cannot_be_read_makes_a_program_that_is_not_done(words: LastWords, given: Assignment) -> None:
    result = {"encoding": "json", "sha256": "", "bytes": 1}
    (given.scratch / Scratch.OUTCOME).write_bytes(contract.write_json({"exit_code": 0, "result": result}))
    (given.scratch / Scratch.VALUE).mkdir()  # to read it is refused
    outcome = words.outcome()
    assert outcome is not None and outcome["exit_code"] == ExitCode.PROGRAM_RAISED
    assert "what the program returned is lost" in outcome["error"]["message"]


def test_the_record_of_a_job_that_was_deleted_makes_no_folder(words: LastWords, storage: LocalStorage) -> None:
    storage.delete_folder("attempts")
    words.leave(RECORD)
    assert storage.list("attempts") == []
