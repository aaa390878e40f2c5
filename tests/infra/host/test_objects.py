"""What a host does when Cloud Storage or the way to it fails: again where that is safe, else what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gcs import LOST, Gcs, is_upload

from prefect_tpu.infra.buckets import BucketStorage
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.host.cloud_calls import Patience
from prefect_tpu.infra.host.cloud_parts import PART_BYTES
from prefect_tpu.infra.host.objects import HostObjects, open_bucket

SHORT = Patience(tries=4, first_pause=0.001, longest_pause=0.002)


@pytest.fixture
def storage(bucket: str) -> BucketStorage:
    return open_bucket(f"{bucket}/job", SHORT)


@pytest.mark.parametrize("how", LOST)
def test_whoever_created_a_name_knows_it_though_the_answer_was_lost(
    storage: BucketStorage, gcs: Gcs, how: dict[str, Any]
) -> None:
    with gcs.trouble(strikes=is_upload, **how):
        assert storage.put_if_absent("plan", b"first")
    assert storage.get("plan") == b"first"


@pytest.mark.parametrize("how", LOST)
def test_whoever_lost_a_name_knows_it_though_the_answer_was_lost(
    storage: BucketStorage, gcs: Gcs, how: dict[str, Any]
) -> None:
    storage.put_if_absent("plan", b"alike")
    with gcs.trouble(strikes=is_upload, **how):
        assert not storage.put_if_absent("plan", b"alike")


@pytest.mark.parametrize("how", [{"code": code} for code in (0, 408, 429, 500, 502, 503, 504)] + [{"cuts": True}])
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
        with gcs.trouble(times=SHORT.tries - 1, **how) as trouble:
            assert ask() == expected
        assert trouble.times == 0 or how.get("cuts"), "an answer without bytes cannot be cut"
    assert (tmp_path / "a").read_bytes() == b"12345" * 1000


def test_after_so_many_tries_it_says_what_was_answered(storage: BucketStorage, gcs: Gcs) -> None:
    with gcs.trouble(code=503, times=99) as trouble, pytest.raises(PlatformError) as failed:
        storage.get("a")
    assert 99 - trouble.times == SHORT.tries
    assert str(failed.value) == (
        f"Could not read {storage.url}/a: Cloud Storage answers with HTTP 503: Trouble that a test asked for. Run it"
        " again later."
    )
    with gcs.trouble(code=0, times=99), pytest.raises(PlatformError, match="cannot be reached: .*Check the network"):
        storage.put("a", b"")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (400, "HTTP 400: Trouble"),
        (401, "its credentials are not accepted. Give the service account of this host the role roles/storage"),
        (403, "it is forbidden: Trouble that a test asked for. Give the service account of this host the role"),
    ],
)
def test_what_stays_as_it_is_is_not_tried_again(storage: BucketStorage, gcs: Gcs, code: int, said: str) -> None:
    with gcs.trouble(code=code, times=99) as trouble, pytest.raises(PlatformError) as failed:
        storage.put("a", b"")
    assert said in str(failed.value)
    assert 99 - trouble.times == (2 if code == 401 else 1), "a token is renewed once"


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


@pytest.mark.parametrize("url", ["gs://", "gs:///x", "gs://UPPER/x", "gs://a/x", "gs://buck et/x"])
def test_a_url_without_a_bucket_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="names no bucket"):
        open_bucket(url)


def test_an_output_may_end_with_a_slash_and_have_no_folder(bucket: str) -> None:
    assert open_bucket(f"{bucket}/a/b/").url == f"{bucket}/a/b"
    whole = open_bucket(bucket)
    whole.put("x/y", b"1")
    assert (whole.url, whole.children(""), open_bucket(f"{bucket}/x").get("y")) == (bucket, ["x"], b"1")


def test_a_folder_that_some_tool_made_is_no_name(storage: BucketStorage, bucket: str) -> None:
    HostObjects(bucket.removeprefix("gs://"), SHORT).write("job/deep/", b"")
    storage.put("deep/a", b"1")
    assert (storage.list("deep"), storage.children("deep"), storage.children("")) == (["deep/a"], ["a"], ["deep"])


@pytest.mark.parametrize("how", LOST)
def test_a_long_file_goes_on_where_it_broke_off(
    storage: BucketStorage, gcs: Gcs, tmp_path: Path, how: dict[str, Any]
) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * (PART_BYTES // 128) + b"end")
    parts = []

    def second_part(request: Any) -> bool:
        is_part = request.method == "PUT" and bool(request.body)
        parts.append(is_part)
        return is_part and sum(parts) == 2

    with gcs.trouble(strikes=second_part, **how), gcs.watched() as requests:
        storage.put_file("long", source)
    assert storage.get("long") == source.read_bytes()
    sent = [r.headers["content-range"] for r in requests if r.method == "PUT" and r.body]
    assert len(sent) == (3 if how.get("is_done") else 4)
    assert sum(r.target.count("uploadType=resumable") for r in requests if r.method == "POST") == 1


def test_a_long_file_whose_upload_was_forgotten_is_sent_anew(storage: BucketStorage, gcs: Gcs, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * (PART_BYTES + 5))
    with gcs.trouble(strikes=lambda request: request.method == "PUT", code=410), gcs.watched() as requests:
        storage.put_file("long", source)
    assert storage.get("long") == source.read_bytes()
    assert sum(request.method == "POST" for request in requests) == 2


def test_an_upload_that_gets_no_further_is_given_up(storage: BucketStorage, gcs: Gcs, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * (PART_BYTES + 5))
    stuck = {"code": 308, "times": 10_000}
    with (
        gcs.trouble(strikes=lambda request: request.method == "PUT", **stuck),
        pytest.raises(PlatformError, match=f"of its {PART_BYTES + 5} bytes no more than 0 are taken"),
    ):
        storage.put_file("long", source)


def test_a_file_that_arrives_damaged_is_asked_for_again(storage: BucketStorage, gcs: Gcs, tmp_path: Path) -> None:
    storage.put("a", b"12345" * 1000)
    with gcs.trouble(spoils=True), gcs.watched() as requests:
        assert storage.get_file("a", tmp_path / "a")
    assert len(requests) == 2 and (tmp_path / "a").read_bytes() == b"12345" * 1000


def test_a_file_that_arrives_cut_every_time_is_not_left_behind(
    storage: BucketStorage, gcs: Gcs, tmp_path: Path
) -> None:
    storage.put("a", b"12345" * 1000)
    with (
        gcs.trouble(cuts=True, times=99),
        pytest.raises(PlatformError, match="Could not read .*a: .*cannot be reached"),
    ):
        storage.get_file("a", tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_pauses_double_to_a_bound_and_the_server_may_ask_for_more() -> None:
    patience = Patience(first_pause=1.0, longest_pause=5.0)
    assert [patience.pause(tried, 0.0, 1.0) for tried in range(4)] == [1.0, 2.0, 4.0, 5.0]
    assert patience.pause(3, 0.0, 0.5) == 2.5
    assert patience.pause(0, 30.0, 1.0) == 30.0
    assert patience.pause(0, 86_400.0, 1.0) == 60.0
