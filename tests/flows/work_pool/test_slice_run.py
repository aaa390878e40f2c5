"""How a caller waits: a server that fails now and then ends no wait. The server here speaks only of one run."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import UUID

import anyio
import httpx
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from prefect_tpu.flows.work_pool.slice_run import SliceRun

RUN = UUID("0f3b6e1a-9c55-4d1e-8f00-123456789abc")


class OneRun(ThreadingHTTPServer):
    """Answers each question for the run with the next of these statuses; 200 is that it is over."""

    daemon_threads = True

    def __init__(self, *statuses: int) -> None:
        self.left = list(statuses)
        super().__init__(("127.0.0.1", 0), _Answer)


class _Answer(BaseHTTPRequestHandler):
    server: OneRun

    def do_GET(self) -> None:
        is_of_run = self.path.endswith(str(RUN))
        status = self.server.left.pop(0) if is_of_run else 404
        state = {"type": "COMPLETED", "name": "Completed"}
        body = json.dumps({"id": str(RUN), "flow_id": str(UUID(int=7)), "name": "eager-otter", "state": state}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """The tests' output is for tests."""


@pytest.fixture
def answering(request: pytest.FixtureRequest) -> Iterator[OneRun]:
    with OneRun(*request.param) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{server.server_port}/api"}):
            yield server
        server.shutdown()


@pytest.mark.parametrize("answering", [(500, 500, 200)], indirect=True)
def test_a_server_that_fails_now_and_then_ends_no_wait(answering: OneRun) -> None:
    run: SliceRun[None] = SliceRun(RUN)
    anyio.run(run.wait_async)
    assert run.state.is_completed() and answering.left == []


@pytest.mark.parametrize("answering", [(403, 200)], indirect=True)
def test_a_refusal_is_told(answering: OneRun) -> None:
    with pytest.raises(httpx.HTTPStatusError, match="403"):
        anyio.run(SliceRun(RUN).wait_async)
    assert answering.left == [200]
