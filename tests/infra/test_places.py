"""Where this user's own files lie, by the environment; a driver's log beside its job where that is on this disk."""

from __future__ import annotations

from pathlib import Path

from prefect_tpu.infra.places import data_folder, driver_log, existing, job_output
from prefect_tpu.infra.storage import LocalStorage


class Bucket(LocalStorage):
    """A storage whose names are no paths of this machine."""


def test_the_users_folder_follows_xdg() -> None:
    assert data_folder({"XDG_DATA_HOME": "/data"}) == Path("/data/prefect-tpu")
    assert data_folder({}).parts[-3:] == (".local", "share", "prefect-tpu")


def test_jobs_lie_where_the_environment_says() -> None:
    assert job_output({"PREFECT_TPU_OUTPUT": "gs://bucket/jobs"}) == "gs://bucket/jobs"
    assert job_output({"XDG_DATA_HOME": "/data"}) == "/data/prefect-tpu/jobs"


def test_the_nearest_folder_that_is_there(tmp_path: Path) -> None:
    assert existing(tmp_path / "a/b") == existing(tmp_path) == str(tmp_path)


def test_a_drivers_log_lies_beside_its_job(tmp_path: Path) -> None:
    assert driver_log(LocalStorage(tmp_path / "digits"), {}) == tmp_path / "digits/driver.log"
