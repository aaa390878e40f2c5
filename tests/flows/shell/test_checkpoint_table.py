"""`prefect-tpu checkpoints` of a job whose files lie there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.flows.shell.checkpoint_table import size
from prefect_tpu.infra import layout, seals
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import LocalStorage

Shell = Callable[..., Any]


def test_the_whole_ones_are_listed_with_what_was_said_of_them(shell: Shell, jobs: Any) -> None:
    storage = jobs.asked("digits")
    root = storage.inside(layout.CHECKPOINTS)
    for step, facts in ((9, {"metrics": {"accuracy": 0.98765}, "side": {"lr": 0.1}, "hosts": 2}), (19, {}), (29, {})):
        root.put(f"1/{step}/state/array", b"0" * 2048)
        seals.seal(root, RestorePoint(attempt=1, step=step), **facts)
    root.delete("1/29/state/array")
    first, *rows = shell("checkpoints", "digits").out.splitlines()
    assert first.split() == ["STEP", "ATTEMPT", "SIZE", "METRICS", "PLACE"]
    assert [row.split()[:-1] for row in rows] == [
        ["19", "1", "2.0", "KiB", "-"],
        ["9", "1", "2.0", "KiB", "accuracy=0.9877"],
    ]
    place = storage.where("checkpoints/1/9")
    assert rows[1].endswith(place)
    newest, best = json.loads(shell("checkpoints", "digits", "--json").out)
    assert best == {
        "attempt": 1, "step": 9, "bytes": 2048, "place": place,
        "metrics": {"accuracy": 0.98765}, "side": {"lr": 0.1}, "hosts": 2,
    }  # fmt: skip
    assert newest.keys() == {"attempt", "step", "bytes", "place"}


def test_that_there_is_none_is_said(shell: Shell, jobs: Any) -> None:
    jobs.asked("digits")
    done = shell("checkpoints", "digits")
    assert (done.out, done.err) == ("", "digits has no whole checkpoint.\n")


def test_a_program_that_ran_in_no_job_has_them_in_a_folder(
    shell: Shell, jobs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written there, and a job's folder is understood too."""
    monkeypatch.chdir(tmp_path)
    root = LocalStorage(tmp_path / "checkpoints")
    root.put("1/9/state/array", b"0" * 2048)
    seals.seal(root, RestorePoint(attempt=1, step=9))
    lies = sorted(tmp_path.rglob("*"))
    for folder in ("./checkpoints", f"{tmp_path}/checkpoints/"):
        _, row = shell("checkpoints", folder).out.splitlines()
        assert row.split() == ["9", "1", "2.0", "KiB", "-", f"{tmp_path}/checkpoints/1/9"]
    assert sorted(tmp_path.rglob("*")) == lies
    job = jobs.asked("digits")
    shutil.copytree(tmp_path / "checkpoints", job.path(layout.CHECKPOINTS))
    assert shell("checkpoints", f"{job.url}/").out == shell("checkpoints", "digits").out != ""


def test_a_folder_s_bare_name_is_told_how_to_give_it(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    bare = shell("checkpoints", "checkpoints")
    assert "There is no job 'checkpoints'" in bare.err and "that lies here give ./checkpoints." in bare.err
    assert shell("checkpoints", "./checkpoints").err == "./checkpoints has no whole checkpoint.\n"
    gone = shell("checkpoints", "./gone")
    assert f"There is no folder {tmp_path}/gone: give the directory" in gone.err


@pytest.mark.parametrize(
    ("count", "written"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 2**40, "3.0 TiB"), (2**52, "4096.0 TiB")],
)
def test_sizes_are_written_as_people_read_them(count: int, written: str) -> None:
    assert size(count) == written
