"""A flow that is sent as an object gets into the output under its key, with the files that it brings."""

from __future__ import annotations

from pathlib import Path

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.launcher.bundle import FAILED, main
from prefect_tpu.infra.storage import LocalStorage


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bundle"
    path.write_bytes(b"flow")
    return path


@pytest.mark.parametrize("key", ["4b1c", "files/0f.zip"])
def test_it_lies_in_the_output_that_is_named(tmp_path: Path, file: Path, key: str) -> None:
    assert main(["--output", str(tmp_path / "output"), "--key", key, str(file)]) == 0
    assert LocalStorage(tmp_path / "output").get(layout.bundle(key)) == b"flow"


def test_where_none_is_named_it_is_the_usual_one(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(Env.OUTPUT, str(tmp_path / "usual"))
    assert main(["--key", "4b1c", str(file)]) == 0
    assert LocalStorage(tmp_path / "usual").get(layout.bundle("4b1c")) == b"flow"


def test_sent_twice_it_is_the_last_one(tmp_path: Path, file: Path) -> None:
    for content in (b"first", b"second"):
        file.write_bytes(content)
        main(["--output", str(tmp_path), "--key", "4b1c", str(file)])
    assert LocalStorage(tmp_path).get(layout.bundle("4b1c")) == b"second"


def test_no_job_can_have_the_folder_s_name() -> None:
    assert not any(map(layout.JOB_NAME.fullmatch, (layout.BUNDLES_FOLDER, layout.RESULTS_FOLDER)))


def test_an_output_that_takes_nothing_is_told(tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--output", str(file), "--key", "4b1c", str(file)]) == FAILED
    assert str(file) in capsys.readouterr().err
