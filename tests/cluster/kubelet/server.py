"""The kubelet's own API, as far as the API server asks it: the logs of containers."""

from __future__ import annotations

import http.server
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from control_plane.authority import KeyPair

from kubelet import logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for the log of a container."""

    namespace: str
    pod: str
    container: str
    is_previous: bool
    selection: logs.Selection


class Refused(Exception):
    """There is no such log; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class LogServer:
    """Serves logs on a free port of the loopback, by TLS.

    find: the pieces of the log that is asked for, or `Refused`.
    """

    def __init__(self, pair: KeyPair, find: Callable[[Asked], Iterator[bytes]]) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(find))
        self._server.daemon_threads = True
        # The handshake is not part of accepting: one silent client would stop all others.
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="logs", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(find: Callable[[Asked], Iterator[bytes]]) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Nobody reads an access log here."""

        def do_GET(self) -> None:
            try:
                pieces = find(_asked(self.path))
            except Refused as error:
                self._answer_refusal(error)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                for piece in pieces:
                    if piece:
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                        self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
            except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
                self.close_connection = True  # whoever followed has seen enough

        def _answer_refusal(self, error: Refused) -> None:
            body = str(error).encode()
            self.send_response(error.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _asked(target: str) -> Asked:
    url = urllib.parse.urlsplit(target)
    query = dict(urllib.parse.parse_qsl(url.query))
    parts = url.path.strip("/").split("/")
    if parts[0] != "containerLogs" or len(parts) != 4:
        raise Refused(404, f"{url.path} is not served here")
    return Asked(
        namespace=parts[1],
        pod=parts[2],
        container=parts[3],
        is_previous=query.get("previous") == "true",
        selection=logs.Selection.of(query),
    )
