"""A place that is watched has another fingerprint once anything in it is another, on a disk and in a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.models.watching import fingerprint
from prefect_tpu.infra.storage import open_storage


@pytest.fixture(params=["disk", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where nothing lies yet."""
    return str(tmp_path / "came" / "in") if request.param == "disk" else f"{request.getfixturevalue('bucket')}/came/in"


def test_whatever_changes_is_seen(place: str) -> None:
    storage = open_storage(place)
    storage.put("a", b"a")
    seen = [fingerprint(place)]
    assert fingerprint(place) == seen[0]
    storage.put("a", b"b")  # as many bytes
    seen.append(fingerprint(place))
    storage.put("deep/c", b"")
    seen.append(fingerprint(place))
    storage.delete("a")
    storage.put("d", b"b")  # the same under another name
    seen.append(fingerprint(place))
    assert len(set(seen)) == len(seen)


def test_one_file_may_be_watched(place: str) -> None:
    storage = open_storage(place)
    storage.put("a", b"a")
    storage.put("ab", b"beside")
    before = fingerprint(f"{place}/a")
    storage.put("ab", b"another")
    assert fingerprint(f"{place}/a") == before
    storage.put("a", b"b")
    assert fingerprint(f"{place}/a") != before


def test_so_may_a_whole_bucket(bucket: str) -> None:
    storage = open_storage(bucket)
    with pytest.raises(UsageError, match="Nothing lies at gs://"):
        fingerprint(bucket)
    storage.put("a", b"a")
    storage.put("deep/er/b", b"b")
    before = fingerprint(bucket)
    assert fingerprint(f"{bucket}/") == before
    storage.put("deep/er/b", b"c")
    assert fingerprint(bucket) != before


def test_where_nothing_lies_is_told(place: str, tmp_path: Path) -> None:
    for nothing in (place, str(tmp_path)):  # the latter is an empty folder
        with pytest.raises(UsageError, match="Nothing lies at .*, which is watched for new data: check the name"):
            fingerprint(nothing)
