"""What a person asks for is checked before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.errors import Conflict, UsageError
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.request import Request, check, job_folder, prepare
from prefect_tpu.infra.storage import LocalStorage


def request(tmp_path: Path, **changes: Any) -> Request:
    values = {"name": "digits", "program": "sh", "accelerators": ("v6e-16", "v6e-4"), "output": str(tmp_path / "out")}
    return Request(**{**values, **changes})


def test_a_job_is_prepared_again_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def main(): pass")
    asked = request(tmp_path, program=f"{tmp_path}/train.py:main", data={"code": str(tmp_path / "train.py")})
    job = prepare(asked)
    assert prepare(asked) == job
    assert (job.name, job.accelerators, list(job.data)) == ("digits", ("v6e-16", "v6e-4"), ["code"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Digits"}, "'Digits' is not usable"),
        ({"accelerators": ("v6e-15",)}, "v6e-15"),
        ({"program": "no-such-program"}, "is no program"),
        ({"program": "payload:abc:main"}, "names no payload"),
        ({"output": "s3://bucket/jobs"}, "is not supported: give a folder of this machine"),
        ({"output": "gs://bucket/jobs"}, "is no folder of this machine, where hosts of backend 'local' write"),
        (
            {"accelerators": ("l4",), "settings": {"slices": 2}},
            "2 slices of 'l4' are not to be had on one machine",
        ),
        ({"settings": {"drills": ("kill@step=3,host=4",)}}, "host=4' strikes no host .v6e-16 has 4, v6e-4 has 1"),
        ({"settings": {"drills": ("explode@step=3",)}}, "preempt, kill, fail"),
        ({"settings": {"drills": ("hang@step=3",), "stall_timeout": None}}, "'hang@step=3,host=0' would never end"),
        ({"settings": {"grace": 0.0}}, "grace is 0.0"),
        ({"settings": {"colour": "red"}}, "Job 'digits' has no setting 'colour'. It has: backend"),
        ({"settings": {"graze": 3}}, "has no setting 'graze'. Did you mean 'grace'"),
        ({"output": "data/below"}, "Output .*data/below cannot be a folder: .*data is a file"),
        ({"accelerators": (16,)}, "Accelerator 16 is no text"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_text("1")
    with pytest.raises(UsageError, match=message):
        prepare(request(tmp_path, **{"data": {"digits": "data"}, **changes}))
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(
    ("data", "message"), [("nowhere.csv", "nowhere.csv is not there"), ("sha256:00", "is not staged in")]
)
def test_data_that_is_not_there_is_found_without_copying_any(tmp_path: Path, data: str, message: str) -> None:
    (tmp_path / "table.csv").write_text("1")
    check(request(tmp_path, data={"table": str(tmp_path / "table.csv")}))
    with pytest.raises(UsageError, match=message):
        check(request(tmp_path, data={"table": str(tmp_path / "table.csv"), "more": data}))
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


@pytest.mark.parametrize("limit", [{}, {"deadline": 60.0}, {"stall_timeout": 60.0}])
def test_a_hang_that_something_ends_may_be_rehearsed(tmp_path: Path, limit: dict[str, float]) -> None:
    settings = {"stall_timeout": None, "drills": ("hang@step=3",), **limit} if limit else {"drills": ("hang@step=3",)}
    assert prepare(request(tmp_path, settings=settings)).drills == ("hang@step=3",)


def test_a_drill_may_name_a_host_of_any_of_the_slices(tmp_path: Path) -> None:
    assert prepare(request(tmp_path, settings={"drills": ("kill@step=3,host=3",)})).drills == ("kill@step=3,host=3",)


def test_a_name_that_is_taken_is_found_before_anything_is_copied(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("1")
    (tmp_path / "more.csv").write_text("2")
    asked = request(tmp_path, data={"table": str(tmp_path / "table.csv")})
    storage = LocalStorage(job_folder(asked.output, asked.name))
    history.enter(storage, prepare(asked))
    before = sorted(tmp_path.rglob("*"))
    for changes in ({"program": "ls"}, {"data": {"table": asked.data["table"], "more": str(tmp_path / "more.csv")}}):
        with pytest.raises(Conflict, match="'digits' exists and was asked for differently"):
            prepare(request(tmp_path, **{"data": asked.data, **changes}))
    assert sorted(tmp_path.rglob("*")) == before
