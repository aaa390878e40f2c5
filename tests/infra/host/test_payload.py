"""Code that is not what was sent never runs."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import zipfile
from pathlib import Path

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Payload
from prefect_tpu.infra.host.payload import PayloadRefused, check_versions, unpack
from prefect_tpu.infra.storage import LocalStorage


def zipped(**files: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/") + ".py", text)
    return buffer.getvalue()


def sent(storage: LocalStorage, raw: bytes) -> str:
    sha256 = hashlib.sha256(raw).hexdigest()
    storage.put(layout.payload(sha256), raw)
    return sha256


def test_what_was_sent_is_laid_down(storage: LocalStorage, tmp_path: Path) -> None:
    unpack(storage, sent(storage, zipped(train="x = 1", pkg__net="y = 2")), tmp_path / "work")
    assert (tmp_path / "work" / "train.py").read_text() == "x = 1"
    assert (tmp_path / "work" / "pkg" / "net.py").read_text() == "y = 2"


def test_a_missing_payload_is_refused(storage: LocalStorage, tmp_path: Path) -> None:
    with pytest.raises(PayloadRefused, match=r"payload/aaaa.*/payload\.zip is missing from .*Run the job again"):
        unpack(storage, "a" * 64, tmp_path)


@pytest.mark.parametrize("change", [lambda raw: raw[:-1], lambda raw: raw + b"x", lambda raw: zipped(train="x = 2")])
def test_a_changed_payload_is_refused_and_nothing_of_it_is_laid_down(
    storage: LocalStorage, tmp_path: Path, change: object
) -> None:
    raw = zipped(train="x = 1")
    sha256 = sent(storage, raw)
    assert callable(change)
    storage.put(layout.payload(sha256), change(raw))
    with pytest.raises(PayloadRefused, match="was changed after it was sent"):
        unpack(storage, sha256, tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_what_is_no_zip_is_refused(storage: LocalStorage, tmp_path: Path) -> None:
    with pytest.raises(PayloadRefused, match="cannot be unpacked"):
        unpack(storage, sent(storage, b"no zip"), tmp_path)


def test_no_member_leaves_the_folder(storage: LocalStorage, tmp_path: Path) -> None:
    unpack(storage, sent(storage, zipped(**{"../outside": "x"})), tmp_path / "deep" / "work")
    assert not list(tmp_path.rglob("deep/outside.py"))
    assert (tmp_path / "deep" / "work" / "outside.py").exists()


@pytest.mark.parametrize("python", ["2.7", "3.99"])
def test_a_function_of_another_python_is_refused(tmp_path: Path, python: str) -> None:
    (tmp_path / Payload.VERSIONS).write_text(json.dumps({"python": python, "cloudpickle": "3.1"}))
    with pytest.raises(PayloadRefused, match=rf"pickled by Python {python} and this host has Python 3"):
        check_versions(tmp_path)


def test_a_function_of_this_python_is_welcome(tmp_path: Path) -> None:
    here = ".".join(platform.python_version_tuple()[:2])
    (tmp_path / Payload.VERSIONS).write_text(json.dumps({"python": here, "cloudpickle": "3.1"}))
    check_versions(tmp_path)


def test_a_function_of_another_major_cloudpickle_is_refused(tmp_path: Path) -> None:
    here = ".".join(platform.python_version_tuple()[:2])
    (tmp_path / Payload.VERSIONS).write_text(json.dumps({"python": here, "cloudpickle": "99.0"}))
    with pytest.raises(PayloadRefused, match="pickled by cloudpickle 99.0"):
        check_versions(tmp_path)
