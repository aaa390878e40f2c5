"""What the launcher does when Cloud Storage, the way to it or whoever asks is not as hoped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gcs import LOST, Gcs, is_upload
from google.cloud.storage.retry import DEFAULT_RETRY

from prefect_tpu.infra.buckets import BucketStorage
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.gcp.storage import open_bucket
from prefect_tpu.infra.storage import open_storage

SHORT = DEFAULT_RETRY.with_delay(initial=0.01, maximum=0.02).with_timeout(5.0)


pytestmark = pytest.mark.leaves_connections


@pytest.fixture
def storage(bucket: str) -> BucketStorage:
    return open_bucket(f"{bucket}/job", SHORT)


@pytest.mark.parametrize("how", LOST)
def test_whoever_created_a_name_knows_it_though_the_answer_was_lost(
    storage: BucketStorage, gcs: Gcs, how: dict[str, Any]
) -> None:
    with gcs.trouble(strikes=is_upload, **how):
        assert storage.put_if_absent("plan", b"alike")
    with gcs.trouble(strikes=is_upload, **how):
        assert not storage.put_if_absent("plan", b"alike")


@pytest.mark.parametrize("how", [{"code": 0}, {"code": 429}, {"code": 503}, {"cuts": True}])
def test_what_fails_for_now_is_tried_again(
    storage: BucketStorage, gcs: Gcs, tmp_path: Path, how: dict[str, Any]
) -> None:
    storage.put("a", b"12345" * 1000)
    for ask, expected in (
        (lambda: storage.get("a"), b"12345" * 1000),
        (lambda: storage.get_file("a", tmp_path / "a"), True),
        (lambda: storage.children(""), ["a"]),
        (lambda: storage.checksum("a")[:4], "md5:"),
        (lambda: storage.put("b", b"1"), None),
        (lambda: storage.delete("b"), None),
    ):
        with gcs.trouble(times=2, **how):
            assert ask() == expected
    assert (tmp_path / "a").read_bytes() == b"12345" * 1000


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (401, "Log in (gcloud auth application-default login)"),
        (403, "it is forbidden: "),
        (403, "roles/storage.objectUser on the bucket"),
    ],
)
def test_who_may_not_is_told_what_to_do(storage: BucketStorage, gcs: Gcs, code: int, said: str) -> None:
    for ask in (lambda: storage.put("a", b""), lambda: storage.get("a"), lambda: storage.list("a")):
        with gcs.trouble(code=code, times=99), pytest.raises(PlatformError) as failed:
            ask()
        assert said in str(failed.value) and storage.url in str(failed.value)


def test_a_bucket_that_is_missing_is_named_and_not_taken_for_an_empty_one(
    gcs: Gcs, bucket: str, tmp_path: Path
) -> None:
    absent = open_bucket("gs://no-such-bucket-here/job", SHORT)
    for ask in (
        lambda: absent.get("a"),
        lambda: absent.put("a", b""),
        lambda: absent.put_if_absent("a", b""),
        lambda: absent.children(""),
        lambda: absent.list("a"),
        lambda: absent.get_file("a", tmp_path / "a"),
    ):
        with pytest.raises(PlatformError, match="'no-such-bucket-here' is no bucket. Make it .gcloud storage buckets"):
            ask()


def test_a_file_is_asked_for_once_and_nothing_is_left_where_it_is_not_there(
    storage: BucketStorage, gcs: Gcs, tmp_path: Path
) -> None:
    storage.put("a", b"1")
    with gcs.watched() as requests:
        assert storage.get_file("a", tmp_path / "a")
    assert len(requests) == 1
    assert not storage.get_file("b", tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_stays_out_of_reach_is_given_up(storage: BucketStorage, gcs: Gcs) -> None:
    with gcs.trouble(code=503, times=10_000), pytest.raises(PlatformError, match=r"Could not read .*/job/a: "):
        open_bucket(storage.url, SHORT.with_timeout(0.2)).get("a")


def test_a_file_that_does_not_come_is_the_network_s_doing_and_leaves_none(
    storage: BucketStorage, gcs: Gcs, tmp_path: Path
) -> None:
    storage.put("a", b"12345" * 1000)
    impatient = open_bucket(storage.url, SHORT.with_timeout(0.2))
    with gcs.trouble(code=0, times=10_000), pytest.raises(PlatformError, match=r"Could not read .*/job/a: .*reached"):
        impatient.get_file("a", tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_without_credentials_it_says_how_to_log_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(PlatformError, match=r"Google does not know who is asking .* Log in \(gcloud auth appl"):
        open_storage("gs://bucket/job")


def test_google_s_client_is_loaded_for_a_bucket_alone(tmp_path: Path) -> None:
    code = (
        "import sys; from prefect_tpu.infra.storage import open_on_host, open_storage\n"
        "import prefect_tpu.infra.staging\n"
        "open_storage(sys.argv[1]); open_on_host(sys.argv[1])\n"
        "print([name for name in ('google', 'urllib.request', 'prefect_tpu.infra.buckets') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
