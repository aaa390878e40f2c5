"""A bucket that refuses is told from a program that is wrong, by what Orbax's two clients raise."""

from __future__ import annotations

import os

import pytest
from aiohttp import ServerDisconnectedError
from gcsfs.retry import HttpError

from prefect_tpu.infra.training import cloud
from prefect_tpu.infra.training.cloud import refused

# As tensorstore 0.1.86 and gcsfs 2026.10 said it of a server that refused.
DENIED = (
    "PERMISSION_DENIED: Error writing gs://b/job/checkpoints/3/1/state/_sharding: No access."
    " [http_response_code='403'] [http_response_body='{\\\"error\\\": …}']"
)


@pytest.mark.parametrize(
    ("exc", "said"),
    [
        (ValueError(DENIED), "PERMISSION_DENIED: Error writing gs://b/job/checkpoints/3/1/state/_sharding: No access"),
        (ValueError("UNAVAILABLE: CURL error"), "UNAVAILABLE: CURL error"),
        (OSError("Forbidden: http://x/upload\nNo access."), "Forbidden: http://x/upload No access"),
        (FileNotFoundError("http://x/upload/storage/v1/b/gone/o"), "http://x/upload/storage/v1/b/gone/o"),
        (HttpError({"message": "Try later.", "code": 503}), "Try later., 503"),
        (ServerDisconnectedError(), "Server disconnected"),
        (ValueError("the shapes differ"), None),
        (ValueError("FAILED_PRECONDITION: Expected shape [3] but received [4] at gs://b"), None),
        (RuntimeError("UNAVAILABLE: a peer is lost"), None),
        (ConnectionResetError("a peer is lost"), None),
    ],
)
def test_what_a_bucket_said_is_found(exc: Exception, said: str | None) -> None:
    found = refused(exc)
    assert (found and found.said) == said
    assert found is None or "roles/storage.objectUser" in found.remedy


@pytest.mark.parametrize(
    ("exc", "may_pass"),
    [
        (ValueError(DENIED), False),
        (ValueError("UNAVAILABLE: CURL error"), True),
        (ValueError("RESOURCE_EXHAUSTED: slow down"), True),
        (HttpError({"message": "Try later.", "code": 503}), True),
        (HttpError({"message": "No such bucket.", "code": 404}), False),
        (OSError("Forbidden: http://x/upload"), False),
        (ServerDisconnectedError(), True),
    ],
)
def test_a_bucket_that_is_away_is_told_from_one_that_says_no(exc: Exception, may_pass: bool) -> None:
    found = refused(exc)
    assert found is not None
    assert found.may_pass is may_pass


@pytest.mark.parametrize(
    ("emulator", "server"), [("http://127.0.0.1:1", "http://127.0.0.1:1"), ("127.0.0.1:1", "http://127.0.0.1:1")]
)
def test_tensorstore_is_led_to_the_emulator_too(monkeypatch: pytest.MonkeyPatch, emulator: str, server: str) -> None:
    monkeypatch.setenv(cloud.TENSORSTORE_SERVER, "")
    monkeypatch.delenv(cloud.TENSORSTORE_SERVER)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator)
    cloud.prepare()
    assert os.environ[cloud.TENSORSTORE_SERVER] == server


def test_google_is_google_without_an_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.delenv(cloud.TENSORSTORE_SERVER, raising=False)
    cloud.prepare()
    assert cloud.TENSORSTORE_SERVER not in os.environ
