"""A file is there whole or not at all, and what the disk refuses is said with what to do."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from prefect_tpu.infra.disk import disk_refusal, opened, replacing
from prefect_tpu.infra.errors import PlatformError


def test_a_file_takes_its_place_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    with replacing(path) as file:
        file.write(b"1")
        assert not path.exists()
    with replacing(path) as file:
        file.write(b"2")
        assert path.read_bytes() == b"1"
    assert path.read_bytes() == b"2"


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_what_is_in_the_way_or_absent_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(PlatformError, match=r"Could not write .*file/x.*move it away"), replacing(tmp_path / "file/x"):
        pass
    with pytest.raises(PlatformError, match=r"Could not read .*absent"), opened(tmp_path / "absent"):
        pass


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.ENOSPC, "Free some space"), (errno.EACCES, "Check its permissions, or"), (errno.EIO, "and the free space")],
)
def test_the_advice_follows_from_the_system_s_number(number: int, advice: str) -> None:
    said = str(disk_refusal("write", Path("/x"), OSError(number, "why")))
    assert said.startswith("Could not write /x: why. ") and advice in said
