"""The rights of a host: a token of its machine, renewed when it is old or not accepted."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from gcs import Gcs

from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.host.cloud_calls import Call, Caller, CallFailed, Patience
from prefect_tpu.infra.host.cloud_token import METADATA_HOST, MachineToken
from prefect_tpu.infra.host.objects import open_bucket

SHORT = Patience(tries=3, first_pause=0.001, longest_pause=0.002)


class Metadata(ThreadingHTTPServer):
    """A machine's metadata server: a new token each time it is asked."""

    expires_in = 3600
    refusals = 0
    given = 0


class _Handler(BaseHTTPRequestHandler):
    server: Metadata

    def do_GET(self) -> None:
        is_right = self.headers["Metadata-Flavor"] == "Google" and self.path.endswith("/default/token")
        if not is_right or self.server.refusals > 0:
            self.server.refusals -= 1
            self.send_error(503 if is_right else 403)
            return
        self.server.given += 1
        body = json.dumps({"access_token": f"token-{self.server.given}", "expires_in": self.server.expires_in}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """A test's output is its own."""


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[Metadata]:
    with Metadata(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setenv(METADATA_HOST, f"127.0.0.1:{server.server_port}")
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def call(bucket: str, gcs: Gcs) -> Call:
    return Call(method="GET", url=f"{gcs.url}/storage/v1/b/{bucket.removeprefix('gs://')}/o")


def tokens(requests: list[Any]) -> list[str]:
    return [request.headers["authorization"] for request in requests]


def test_a_token_serves_until_shortly_before_its_end(metadata: Metadata, gcs: Gcs, call: Call) -> None:
    caller = Caller(MachineToken(), SHORT)
    with gcs.watched() as requests:
        caller.ask(call)
        caller.ask(call)
    assert tokens(requests) == ["Bearer token-1"] * 2
    metadata.expires_in = 200
    caller = Caller(MachineToken(), SHORT)
    with gcs.watched() as requests:
        caller.ask(call)
        caller.ask(call)
    assert tokens(requests) == ["Bearer token-2", "Bearer token-3"]


def test_a_token_that_is_not_accepted_is_renewed_once(metadata: Metadata, gcs: Gcs, call: Call) -> None:
    caller = Caller(MachineToken(), SHORT)
    with gcs.trouble(code=401), gcs.watched() as requests:
        caller.ask(call)
    assert tokens(requests) == ["Bearer token-1", "Bearer token-2"]
    with gcs.trouble(code=401, times=99), gcs.watched() as requests, pytest.raises(CallFailed) as failed:
        caller.ask(call)
    assert failed.value.code == 401 and tokens(requests) == ["Bearer token-2", "Bearer token-3"]


def test_a_metadata_server_that_starts_late_is_waited_for(metadata: Metadata, gcs: Gcs, call: Call) -> None:
    metadata.refusals = 2
    with gcs.watched() as requests:
        Caller(MachineToken(), SHORT).ask(call)
    assert tokens(requests) == ["Bearer token-1"]


def test_a_machine_without_one_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv(METADATA_HOST, "127.0.0.1:1")
    with pytest.raises(PlatformError, match=r"gs://bucket/job/a: .*this machine's metadata server gives no token \("):
        open_bucket("gs://bucket/job", SHORT).get("a")


def test_an_emulator_is_asked_without_rights(bucket: str, gcs: Gcs) -> None:
    with gcs.watched() as requests:
        open_bucket(bucket, SHORT).get("a")
    assert all("authorization" not in request.headers for request in requests)
