"""A server of the tests: how it serves in the background, how it is made to say nothing, how it ends with them."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

_LOOK_SECONDS = 0.05  # how often it is looked whether it shall end
_PR_SET_PDEATHSIG = 1  # of Linux


class Serving(ThreadingHTTPServer):
    """Serves on loopback for as long as it is entered. `port`: a free one by default."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler: type[BaseHTTPRequestHandler], name: str, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(_LOOK_SECONDS,), name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class Silence:
    """Whether requests are answered."""

    def __init__(self) -> None:
        self._may_answer = threading.Event()
        self._may_answer.set()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Requests are taken and not answered in the block."""
        self._may_answer.clear()
        try:
            yield
        finally:
            self._may_answer.set()

    def outlast_silence(self) -> None:
        """Until requests are answered."""
        self._may_answer.wait()


def end_with_the_tests() -> None:
    """In a server's process, before it begins: the kernel kills it when these tests are killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
