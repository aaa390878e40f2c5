"""Jobs are found by name, and a name that is nearly right is set right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prefect_tpu.infra.errors import NoSuchJob, UsageError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.jobs import find_job, job_names
from prefect_tpu.infra.storage import LocalStorage


@pytest.fixture
def output(tmp_path: Path, make_job: Callable[..., SliceJob]) -> str:
    for name in ("digits", "mnist"):
        history.enter(LocalStorage(tmp_path / name), make_job(name=name))
    (tmp_path / ".data").mkdir()
    (tmp_path / "half").mkdir()
    (tmp_path / "Notes").mkdir()
    (tmp_path / "Notes/job.json").touch()
    return str(tmp_path)


def test_what_has_a_job_is_a_job(output: str) -> None:
    assert job_names(output) == ["digits", "mnist"]
    assert job_names(f"{output}/nowhere") == []
    assert find_job(output, "digits").root == Path(output, "digits")


def test_a_file_is_no_output(output: str) -> None:
    with pytest.raises(UsageError, match=r"Notes/job\.json is no folder: name the one that holds the jobs"):
        job_names(f"{output}/Notes/job.json")


def test_an_unknown_name_is_answered_with_the_nearest(output: str) -> None:
    with pytest.raises(NoSuchJob, match=r"There is no job 'digts' in /.*\. Did you mean 'digits'\?"):
        find_job(output, "digts")
    with pytest.raises(UsageError, match="`prefect-tpu list` shows"):
        find_job(output, "else")
    with pytest.raises(NoSuchJob, match=r"no job '\.\./x'"):
        find_job(output, "../x")
