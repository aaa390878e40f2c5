"""A flow that was sent as an object: laid down on a host as Prefect looks for it, or told to be missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ExitCode
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.host.bundle import fetch
from prefect_tpu.infra.storage import LocalStorage

ARCHIVE = "files/0f.zip"


@pytest.fixture
def output(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "output")


def sent(output: LocalStorage, **bundle: object) -> None:
    output.put(layout.bundle("key"), json.dumps({"function": "…", **bundle}).encode())


@pytest.mark.parametrize("bundle", [{}, {"files_key": None}])
def test_a_flow_alone_is_one_file(output: LocalStorage, tmp_path: Path, bundle: dict[str, object]) -> None:
    sent(output, **bundle)
    file = fetch(output, "key", tmp_path / "here")
    assert json.loads(file.read_bytes())["function"] == "…"
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["key"]


def test_files_that_travel_lie_where_prefect_looks_for_them(output: LocalStorage, tmp_path: Path) -> None:
    sent(output, files_key=ARCHIVE)
    output.put(layout.bundle(ARCHIVE), b"zip")
    file = fetch(output, "key", tmp_path / "here")
    assert (file.parent / ARCHIVE).read_bytes() == b"zip"


@pytest.mark.parametrize("missing", ["key", ARCHIVE])
def test_what_is_not_there_is_named(output: LocalStorage, tmp_path: Path, missing: str) -> None:
    if missing == ARCHIVE:
        sent(output, files_key=ARCHIVE)
    with pytest.raises(PlatformError, match="is not there: this host sees another folder") as caught:
        fetch(output, "key", tmp_path / "here")
    assert output.where(layout.bundle(missing)) in str(caught.value)


def test_the_command_says_so_and_ends_with_the_code_of_what_cannot_be_used(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "prefect_tpu.infra.host.bundle", "--output", str(tmp_path), "--key", "none"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == ExitCode.PAYLOAD_REFUSED
    assert "submit the flow again" in done.stderr and "Traceback" not in done.stderr


def test_it_needs_nothing_but_python(tmp_path: Path) -> None:
    """The image has Prefect, but whoever fetches must not wait for it."""
    code = "import sys, prefect_tpu.infra.host.bundle; print({'prefect', 'google', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stderr
