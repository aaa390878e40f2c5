"""A reverse proxy on the way of one client to one server, on which things go wrong as a plan says.

    with Faulty(plane.server.url, traffic, faults, says=kubernetes_says, tls=Tls(...)) as proxy:
        proxy.url

What it does to a request it does to bytes on a real connection: an answer that is lost was given, a watch that breaks
off was open, and a server that is away takes no connection. The server itself knows nothing of it.
"""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from faults import NONE, Asked, Fault, Faults, Kind, Traffic, google_says
from serving import Serving

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "date", "server"}
_BLOCK = 65_536
_PATIENCE = 90.0  # longer than any watch
_LOOK_SECONDS = 1.0  # how often an idle websocket is looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Whom to trust as the server, and who to be to the client."""

    authority: Path
    certificate: Path
    key: Path


class Faulty(Serving):
    """Serves in the background for as long as it is entered. `url` is what the client is told in the server's place."""

    def __init__(
        self,
        server: str,
        traffic: Traffic,
        faults: Faults = NONE,
        *,
        name: str = "",
        says: Callable[[Fault], bytes] = google_says,
        tls: Tls | None = None,
    ) -> None:
        super().__init__(_Handler, "faulty")
        self.name = name
        self.traffic, self.faults, self.says = traffic, faults, says
        self._upstream = urlsplit(server)
        self._trust = ssl.create_default_context(cafile=str(tls.authority)) if tls else None
        self.own: ssl.SSLContext | None = None
        if tls:
            self.own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.own.load_cert_chain(tls.certificate, tls.key)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_port}"
        self._away_until = 0.0

    @property
    def is_away(self) -> bool:
        return time.monotonic() < self._away_until

    def leave(self, seconds: float) -> None:
        """Answer nobody for so long."""
        self._away_until = time.monotonic() + seconds

    def connect(self) -> http.client.HTTPConnection:
        """To the server itself."""
        host, port = str(self._upstream.hostname), self._upstream.port
        if self._trust is not None:
            return http.client.HTTPSConnection(host, port, timeout=_PATIENCE, context=self._trust)
        return http.client.HTTPConnection(host, port, timeout=_PATIENCE)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # else: whoever asked was killed, or does not like what it sees
            super().handle_error(request, client_address)


class _Gone(OSError):
    """The connection is to be cut."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Faulty

    def setup(self) -> None:
        if self.server.is_away:
            raise _Gone
        if self.server.own is not None:
            self.request = self.server.own.wrap_socket(self.request, server_side=True)
        super().setup()
        self._upstream: http.client.HTTPConnection | None = None

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        if self._upstream is not None:
            self._upstream.close()
        with suppress(OSError):
            self.request.close()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.is_away:
            raise _Gone
        asked = Asked(method=self.command, target=self.path, server=self.server.name)
        if self.headers.get("Upgrade"):
            self._tunnel()
            return
        moment, strike, fault = self.server.traffic.note(asked, self.server.faults)
        if moment is not None:
            if moment.is_done:
                self._ask(body).close()
            strike()
            self._cut()
        elif fault is None:
            self._pass_on(self._ask(body), None)
        else:
            self._spoil(body, asked, fault)

    def _spoil(self, body: bytes, asked: Asked, fault: Fault) -> None:
        if fault.kind is Kind.AWAY:
            self.server.leave(fault.seconds)
            self._cut()
        elif fault.kind is Kind.SLOW:
            time.sleep(fault.seconds)
            self._pass_on(self._ask(body), None)
        elif fault.kind is Kind.CUT or (fault.kind is Kind.EXPIRED and asked.is_stream):
            self._pass_on(self._ask(body), fault)
        else:
            if fault.is_done and not asked.is_stream:
                self._ask(body).read()
            if fault.kind is Kind.LOST:
                self._cut()
            self._refuse(fault)

    def _tunnel(self) -> None:
        """A websocket: bytes both ways until one side has enough, or until the server is away. Nothing is counted."""
        upstream = self.server.connect()
        upstream.connect()
        head = [f"{self.command} {self.path} HTTP/1.1", *(f"{name}: {text}" for name, text in self.headers.items())]
        upstream.sock.sendall("\r\n".join([*head, "", ""]).encode())
        ways = {self.connection: upstream.sock, upstream.sock: self.connection}
        try:
            while not self.server.is_away:
                for ready in select.select(list(ways), [], [], _LOOK_SECONDS)[0]:
                    if not (block := ready.recv(_BLOCK)):
                        raise _Gone
                    ways[ready].sendall(block)
            raise _Gone
        finally:
            upstream.close()

    def _ask(self, body: bytes) -> http.client.HTTPResponse:
        """To the server itself, over one connection per connection of the client."""
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        for is_last in (False, True):
            if self._upstream is None or self._is_closed(self._upstream):
                self._upstream = self.server.connect()
            try:
                self._upstream.request(self.command, self.path, body or None, headers)
                return self._upstream.getresponse()
            except (ConnectionError, http.client.RemoteDisconnected):  # a connection that was kept too long
                self._upstream.close()
                self._upstream = None
                if is_last or self.command not in ("GET", "HEAD"):
                    raise
        raise AssertionError("one of two tries answers or raises")

    def _is_closed(self, upstream: http.client.HTTPConnection) -> bool:
        """Whether the server has left it, as it does when nothing was asked for long: it sends nothing else unasked."""
        if upstream.sock is None or not select.select([upstream.sock], [], [], 0)[0]:
            return False
        upstream.close()
        return True

    def _pass_on(self, answer: http.client.HTTPResponse, fault: Fault | None) -> None:
        has_none = answer.status in (204, 304)
        is_whole = answer.getheader("Content-Length") is not None or self.command == "HEAD" or has_none
        data = answer.read() if is_whole else b""  # also of none: before that the connection takes no other request
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        if is_whole:
            if not has_none:
                self.send_header("Content-Length", answer.getheader("Content-Length") or str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._stream(answer, fault)

    def _stream(self, answer: http.client.HTTPResponse, fault: Fault | None) -> None:
        lines = 0
        while fault is None or lines < fault.lines:
            try:
                block = answer.read1(_BLOCK)
            except (http.client.HTTPException, OSError):  # the server is gone
                self._cut()
            if not block:
                self.wfile.write(b"0\r\n\r\n")
                return
            lines += block.count(b"\n")
            self._write_chunk(block)
        if fault.kind is Kind.EXPIRED:
            self._write_chunk(b'{"type":"ERROR","object":' + self.server.says(fault) + b"}\n")
            self.wfile.write(b"0\r\n\r\n")
        self._cut()

    def _write_chunk(self, block: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(block), block))
        self.wfile.flush()

    def _refuse(self, fault: Fault) -> None:
        body = self.server.says(fault)
        self.send_response(fault.kind.code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if fault.kind is Kind.BUSY:
            self.send_header("Retry-After", f"{fault.seconds:.0f}")
        self.end_headers()
        self.wfile.write(body)

    def _cut(self) -> None:
        """The connection is gone at once, as when a machine between the two is."""
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise _Gone

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _serve

    def log_message(self, format: str, *args: object) -> None:
        """A test's output is its own."""
