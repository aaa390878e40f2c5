"""Where a job starts that goes on from another one's model."""

from __future__ import annotations

from pathlib import Path

import pytest

from prefect_tpu.infra import layout, seals, start_points
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.start_points import StartPoint
from prefect_tpu.infra.storage import LocalStorage


@pytest.fixture
def job(tmp_path: Path) -> LocalStorage:
    storage = LocalStorage(tmp_path / "jobs" / "digits")
    storage.put(layout.JOB, b"{}")
    return storage


def save(job: LocalStorage, attempt: int, step: int) -> RestorePoint:
    point = RestorePoint(attempt=attempt, step=step)
    root = start_points.checkpoints_of(job)
    root.put(f"{seals.step_folder(point)}/state", b"weights")
    seals.seal(root, point)
    return point


@pytest.mark.parametrize("folder", ["/jobs/digits", "gs://bucket/jobs/digits", "jobs/checkpoints/x"])
def test_a_place_is_read_as_it_is_written(folder: str) -> None:
    whole = StartPoint(folder=folder, point=None)
    one = StartPoint(folder=folder, point=RestorePoint(attempt=2, step=30))
    assert str(one) == f"{folder}/checkpoints/2/30"
    assert [start_points.parse(str(start)) for start in (whole, one)] == [whole, one]
    assert start_points.parse(f"{folder}/") == whole


def test_the_newest_checkpoint_of_a_job(job: LocalStorage) -> None:
    assert start_points.newest(job) is None
    save(job, 1, 10)
    newest = save(job, 2, 20)
    assert start_points.newest(job) == StartPoint(folder=job.url, point=newest)


def test_what_is_there_may_be_started_from(job: LocalStorage) -> None:
    save(job, 1, 10)
    for place in (job.url, f"{job.url}/checkpoints/1/10"):
        start_points.check(place, str(job.root.parent))


@pytest.mark.parametrize(
    ("ending", "words"),
    [("/checkpoints/1/11", "no whole checkpoint"), ("-2", "is no job"), ("/checkpoints", "is no job")],
)
def test_what_is_not_there(job: LocalStorage, ending: str, words: str) -> None:
    save(job, 1, 10)
    with pytest.raises(UsageError, match=words):
        start_points.check(f"{job.url}{ending}", str(job.root.parent))


def test_a_bare_name_is_told_where_its_job_lies(
    job: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken for a folder, which may be one word too. Where no job is called so, it is told what a place is."""
    monkeypatch.chdir(tmp_path)
    output = str(job.root.parent)
    for place in ("digits", "digits/checkpoints/1/10"):
        with pytest.raises(UsageError) as meant:
            start_points.check(start_points.spelled(place, output), output)
        assert str(meant.value) == (
            f"start_from '{tmp_path}/{place}' is no job. The job 'digits' lies at {job.url}: give that, or a checkpoint"
            " of it, of which `prefect-tpu checkpoints digits` lists the places."
        )
    with pytest.raises(UsageError) as unknown:
        start_points.check(start_points.spelled("letters", output), output)
    assert (
        f"Give a job's folder, such as {output}/NAME, or a checkpoint of it, {output}/NAME/checkpoints/ATTEMPT/STEP"
        in (str(unknown.value))
    )


def test_a_checkpoint_that_lost_a_file_is_refused(job: LocalStorage) -> None:
    point = save(job, 1, 10)
    start_points.checkpoints_of(job).delete(f"{seals.step_folder(point)}/state")
    with pytest.raises(UsageError, match="no whole checkpoint"):
        start_points.check(f"{job.url}/checkpoints/1/10", str(job.root.parent))


@pytest.mark.parametrize("ending", ["", "/checkpoints/1/10"])
def test_what_is_whole_is_usable(job: LocalStorage, ending: str) -> None:
    point = save(job, 1, 10)
    assert start_points.is_usable(f"{job.url}{ending}")
    start_points.checkpoints_of(job).put(f"{seals.step_folder(point)}/state", b"another")  # as many bytes
    assert start_points.is_usable(f"{job.url}{ending}") == (ending == "")
    job.delete(layout.JOB)
    assert not start_points.is_usable(f"{job.url}{ending}")


def test_what_cannot_be_read_now_is_not_gone(job: LocalStorage) -> None:
    """Else a disk that is away for a moment would cost a champion its place."""
    save(job, 1, 10)
    seal = job.path(layout.checkpoint_seal(1, 10))
    seal.unlink()
    seal.mkdir()
    with pytest.raises(PlatformError, match="Could not read"):
        start_points.is_usable(f"{job.url}/checkpoints/1/10")


def test_one_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert start_points.spelled("", "jobs") == ""
    assert start_points.spelled("jobs/digits/", "jobs") == f"{tmp_path}/jobs/digits"
    assert start_points.spelled("file:///jobs/digits/checkpoints/1/2", "jobs") == "/jobs/digits/checkpoints/1/2"


@pytest.mark.parametrize(("place", "output"), [("gs://bucket/digits", "/jobs"), ("/jobs/digits", "gs://bucket/jobs")])
def test_hosts_must_be_able_to_read_it(place: str, output: str) -> None:
    with pytest.raises(UsageError, match="not both in a bucket or both on this machine"):
        start_points.spelled(place, output)
