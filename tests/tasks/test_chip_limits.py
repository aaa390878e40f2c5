"""Chips are asked of a Prefect server, and what answers in its place ends no job."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

import anyio
from prefect.client.orchestration import PrefectClient
from serving import Serving

from prefect_tpu.infra.launcher.permits import Chips
from prefect_tpu.infra.state import Waiting
from prefect_tpu.tasks.chip_limits import ChipLimits


class _Page(BaseHTTPRequestHandler):
    """What stands before a server and answers in its place."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>Log in</html>")

    def log_message(self, format: str, *args: object) -> None:
        """A test's output is its own."""


def test_a_page_in_place_of_an_answer_is_waited_out() -> None:
    with Serving(_Page, "a page") as page:
        limits = ChipLimits(lambda: PrefectClient(f"http://127.0.0.1:{page.server_port}/api"))
        answer = anyio.run(limits.take, Chips(kind="v6e", count=4))
    assert isinstance(answer, Waiting) and not answer.is_dry and "is none of its answers" in answer.reason
