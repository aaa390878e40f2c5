"""The faulty way itself: each fault is what it is called, the server sees what it should, and a seed decides all."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from faults import Asked, Fault, Faults, Kind, Moment, Traffic, google_says, kubernetes_says
from faulty import Faulty

EVENTS = 5
WATCH = "/pods?watch=1"
LAST = "/last"  # after which the server leaves, and says nothing of it
NOTHING = "/nothing"  # is answered by 204, which has no body and no word of its length


@dataclass(frozen=True, slots=True, kw_only=True)
class Only:
    """A plan in which one fault is every request's fate."""

    fault: Fault | None

    def of(self, number: int, asked: Asked, before: Counter[Kind]) -> Fault | None:
        return self.fault


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    heard: list[str]
    left: threading.Semaphore  # released each time a connection is closed

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.left.release()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self.server.heard.append(self.path)
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == NOTHING:
            self.send_response(204)
            self.end_headers()
            return
        self.close_connection = self.path == LAST
        self.send_response(200)
        if "watch" not in self.path:
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for _ in range(EVENTS):
            self.wfile.write(b'e\r\n{"type": "A"}\n\r\n')
        self.wfile.write(b"0\r\n\r\n")

    do_POST = do_PATCH = do_GET

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.heard, server.left = [], threading.Semaphore(0)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@dataclass(slots=True)
class Client:
    """Of a faulty way."""

    proxy: Faulty
    traffic: Traffic = field(default_factory=Traffic)

    def ask(self, target: str = "/pods", method: str = "GET") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.proxy.server_port, timeout=20)
        try:
            connection.request(method, target, b"" if method == "GET" else b"{}")
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@contextmanager
def a_way(server: _Server, fault: Fault | None, says=kubernetes_says) -> Iterator[Client]:
    traffic = Traffic()
    url = f"http://127.0.0.1:{server.server_port}"
    with Faulty(url, traffic, Only(fault=fault), name="here", says=says) as proxy:
        yield Client(proxy, traffic)


def test_what_goes_well_passes_as_it_is(server: _Server) -> None:
    with a_way(server, None) as client:
        assert client.ask() == (200, b"{}")
        assert client.ask(WATCH) == (200, b'{"type": "A"}\n' * EVENTS)
        assert [asked.server for asked in client.traffic.asked] == ["here"] * 2


def test_an_answer_without_a_body_leaves_the_connection_as_it_was(server: _Server) -> None:
    with a_way(server, None) as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.proxy.server_port, timeout=60)
        for path, status in ((NOTHING, 204), ("/pods", 200), (NOTHING, 204)):
            connection.request("POST", path, b"x")
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (status, b"" if status == 204 else b"{}")
        connection.close()
    assert server.heard == [NOTHING, "/pods", NOTHING]


def test_a_connection_that_the_server_has_left_is_made_anew(server: _Server) -> None:
    with a_way(server, None) as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.proxy.server_port, timeout=60)
        for path in (LAST, LAST, "/pods"):
            connection.request("POST", path, b"x")
            assert connection.getresponse().read() == b"{}"
            assert path != LAST or server.left.acquire(timeout=60)
        connection.close()
    assert server.heard == [LAST, LAST, "/pods"]


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("kind", [Kind.CONFLICT, Kind.EXPIRED, Kind.BUSY, Kind.BROKEN, Kind.LATE])
def test_a_refusal_is_in_the_servers_own_words(server: _Server, kind: Kind, is_done: bool) -> None:
    for says, path in ((kubernetes_says, ("code",)), (google_says, ("error", "code"))):
        with a_way(server, Fault(kind=kind, is_done=is_done), says) as client:
            status, body = client.ask(method="PATCH")
            found = json.loads(body)
            for name in path:
                found = found[name]
            assert status == found == kind.code
            assert client.traffic.injected[kind] == 1
    assert len(server.heard) == (2 if is_done else 0)


def test_an_answer_that_is_lost_was_given(server: _Server) -> None:
    with a_way(server, Fault(kind=Kind.LOST, is_done=True)) as client:
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            client.ask(method="POST")
        assert server.heard == ["/pods"]


def test_who_is_away_takes_no_connection(server: _Server) -> None:
    with a_way(server, Fault(kind=Kind.AWAY, seconds=600)) as client:
        for _ in range(2):
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                client.ask()
        assert server.heard == [] and client.traffic.injected[Kind.AWAY] == 1


def test_a_watch_breaks_off_in_its_middle(server: _Server) -> None:
    with (
        a_way(server, Fault(kind=Kind.CUT, lines=1)) as client,
        pytest.raises((ConnectionError, http.client.HTTPException)),
    ):
        client.ask(WATCH)
    assert server.heard == [WATCH]


def test_a_watch_may_be_told_that_it_expired(server: _Server) -> None:
    """As the API server does in an open watch: an event and the end."""
    with a_way(server, Fault(kind=Kind.EXPIRED, lines=0)) as client:
        status, body = client.ask(WATCH)
    assert (status, json.loads(body)["type"], json.loads(body)["object"]["code"]) == (200, "ERROR", 410)


@pytest.mark.parametrize("is_done", [False, True])
def test_a_moment_is_before_or_after_the_server_has_done_it(server: _Server, is_done: bool) -> None:
    struck: list[int] = []
    with a_way(server, None) as client:
        moment = Moment(nth=2, is_of_writes=True, server="here", is_done=is_done)
        client.traffic.arm(moment, lambda: struck.append(len(server.heard)))
        client.ask(method="POST")
        client.ask(method="GET")
        client.ask("/pods?dryRun=All", method="POST")  # changes nothing
        assert struck == []
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            client.ask(method="POST")
        client.ask(method="POST")
    assert struck == [4 if is_done else 3], "once"


def test_the_same_seed_is_the_same_fate() -> None:
    asked = Asked(method="PATCH", target="/pods/a")
    fates = [[Faults(seed=seed, rate=0.3).of(n, asked, Counter()) for n in range(100)] for seed in (1, 1, 2)]
    assert fates[0] == fates[1] != fates[2]
    assert 15 < sum(fate is not None for fate in fates[0]) < 45


@pytest.mark.parametrize(
    ("target", "method", "never"),
    [
        ("/pods", "GET", {Kind.CONFLICT, Kind.EXPIRED, Kind.CUT}),
        (WATCH, "GET", {Kind.CONFLICT, Kind.LOST}),
        ("/pods", "POST", {Kind.CONFLICT, Kind.EXPIRED, Kind.CUT}),
        ("/pods/a", "DELETE", {Kind.EXPIRED, Kind.CUT}),
    ],
)
def test_what_can_go_wrong_does_and_nothing_else(target: str, method: str, never: set[Kind]) -> None:
    plan, before = Faults(seed=1, rate=1.0, most_away=2), Counter[Kind]()
    for number in range(60):
        fault = plan.of(number, Asked(method=method, target=target), before)
        assert fault is not None
        before[fault.kind] += 1
    assert set(before) == set(Kind) - never
    assert before[Kind.AWAY] <= 2
