"""Where jobs of a pool lie: an output that somebody named hides no other, and what is over is not asked again."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import WorkPool

from prefect_tpu.flows.work_pool.outputs import Found, Outputs
from prefect_tpu.flows.work_pool.template import base_job_template
from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import JobResult, Program, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.storage import LocalStorage

PROGRAM = Program(kind="flow", target="prefect", arguments=("flow-run", "execute"))


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    """Of a pool whose runs have their jobs in `jobs` unless they say otherwise."""
    template = base_job_template({"output": str(tmp_path / "jobs"), "backend": "local"})
    now = datetime.now(UTC)
    pool = WorkPool(
        id=uuid4(), created=now, updated=now, name="tpu", type="tpu-slice", base_job_template=template,
        default_queue_id=uuid4(),
    )  # fmt: skip
    return Outputs(client=PrefectClient(api="http://127.0.0.1:9/api"), pool=pool)  # which nobody asks


def scan(outputs: Outputs, *known: str) -> list[Found]:
    return anyio.run(outputs.scan, frozenset(known))


def folders(found: Sequence[Found]) -> list[str]:
    return [one.folder for one in found]


def write(output: Path, name: str) -> LocalStorage:
    storage = LocalStorage(output / name)
    history.enter(storage, SliceJob(name=name, program=PROGRAM, accelerators=("cpu",)))
    return storage


def end(storage: LocalStorage) -> None:
    name = storage.root.name
    result = JobResult(job=name, state="succeeded", attempts=(), output=storage.url, value=None, failure=None)
    history.write_result(storage, result)


def unreadable(output: Path) -> str:
    """What some run has named by mistake: a file. The folder of a job that would be there."""
    output.write_text("notes")
    return str(output / "digits")


def test_the_pool_s_own_settings_say_where_jobs_lie(outputs: Outputs, tmp_path: Path) -> None:
    assert outputs.folder_of("digits") == "", "nobody knows yet"
    assert scan(outputs) == []
    assert outputs.default == str(tmp_path / "jobs")
    assert outputs.folder_of("digits") == str(tmp_path / "jobs" / "digits")


def test_an_output_that_cannot_be_read_hides_no_other(
    outputs: Outputs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It stands between the two that can, in the order in which they are read."""
    first, last = write(tmp_path / "jobs", "digits"), write(tmp_path / "theirs", "letters")
    outputs.heard_of(unreadable(tmp_path / "notes"))
    outputs.heard_of(last.url)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert folders(scan(outputs)) == [first.url, last.url]
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert str(tmp_path / "notes") in said, "once, not at each look"


def test_it_is_read_as_soon_as_it_can_be(outputs: Outputs, tmp_path: Path) -> None:
    outputs.heard_of(unreadable(tmp_path / "notes"))
    assert scan(outputs) == []
    (tmp_path / "notes").unlink()
    job = write(tmp_path / "notes", "digits")
    assert folders(scan(outputs)) == [job.url]


def test_a_pool_whose_own_output_cannot_be_read_says_so(outputs: Outputs, tmp_path: Path) -> None:
    unreadable(tmp_path / "jobs")
    with pytest.raises(UsageError, match="is no folder"):
        scan(outputs)


def test_a_job_with_an_end_is_looked_at_once_more_where_something_is_left(outputs: Outputs, tmp_path: Path) -> None:
    job = write(tmp_path / "jobs", "digits")
    assert scan(outputs) == [Found(folder=job.url, is_over=False)]
    job.put(layout.SECRETS, b"{}")
    end(job)
    assert scan(outputs) == [Found(folder=job.url, is_over=True)]
    assert scan(outputs) == [], "it is not asked again"


def test_one_that_begins_again_is_looked_at_again(outputs: Outputs, tmp_path: Path) -> None:
    job = write(tmp_path / "jobs", "digits")
    end(job)
    assert scan(outputs) == [] and outputs.over == {job.url}
    job.delete(layout.RESULT)
    assert scan(outputs) == []
    outputs.heard_of(job.url)
    assert scan(outputs) == [Found(folder=job.url, is_over=False)]


def test_one_whose_folder_was_deleted_is_forgotten(outputs: Outputs, tmp_path: Path) -> None:
    job = write(tmp_path / "jobs", "digits")
    end(job)
    assert scan(outputs) == [] and outputs.over
    shutil.rmtree(job.root)
    assert scan(outputs) == [] and not outputs.over


def test_one_that_is_known_is_not_looked_at(outputs: Outputs, tmp_path: Path) -> None:
    """Neither while it is, nor is it forgotten that another one was over."""
    job, other, over = (write(tmp_path / "jobs", name) for name in ("digits", "letters", "words"))
    end(over)
    assert folders(scan(outputs, job.url)) == [other.url] and outputs.over == {over.url}
    end(job)
    assert folders(scan(outputs, job.url)) == [other.url] and outputs.over == {over.url}
    assert folders(scan(outputs)) == [other.url] and outputs.over == {job.url, over.url}


def test_what_is_no_job_is_none(outputs: Outputs, tmp_path: Path) -> None:
    (tmp_path / "jobs" / "Plots of mine").mkdir(parents=True)
    (tmp_path / "jobs" / "empty").mkdir()
    assert scan(outputs) == []
