"""The key by which hosts of a flow on this machine know each other."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.local_keys import region_key
from prefect_tpu.infra.errors import PlatformError


def test_it_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: region_key(tmp_path), range(32)))
    (key,) = keys
    assert len(bytes.fromhex(key)) == 32
    path = tmp_path / layout.REGION_KEY
    assert path.read_text() == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == [layout.REGION_KEY], "nothing half made is left"


def test_jobs_have_keys_of_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    assert region_key(tmp_path / "a") != region_key(tmp_path / "b")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="region-key"):
        region_key(tmp_path / "absent")
