"""The Container API by REST: requests to what is asked of the pools, answers as Google writes them."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from container_errors import Refused, invalid, not_found
from container_pools import Pools
from google.cloud import container_v1 as api
from google.protobuf import json_format
from serving import Serving

_LOCATION = r"projects/[^/]+/(?:locations|zones)/[^/]+"
_CLUSTER = rf"{_LOCATION}/clusters/[^/:]+"
_POOL = rf"{_CLUSTER}/nodePools/[^/:]+"
_ROUTES: list[tuple[str, re.Pattern[str], str]] = [
    (method, re.compile(rf"/v1/(?P<name>{pattern}){tail}"), called)
    for method, pattern, tail, called in (
        ("GET", _CLUSTER, "", "clusters.get"),
        ("GET", _LOCATION, "/clusters", "clusters.list"),
        ("GET", _CLUSTER, "/nodePools", "nodePools.list"),
        ("POST", _CLUSTER, "/nodePools", "nodePools.create"),
        ("GET", _POOL, "", "nodePools.get"),
        ("PUT", _POOL, "", "nodePools.update"),
        ("DELETE", _POOL, "", "nodePools.delete"),
        ("POST", _POOL, ":setSize", "nodePools.setSize"),
        ("POST", _POOL, ":setAutoscaling", "nodePools.setAutoscaling"),
        ("GET", rf"{_LOCATION}/operations/[^/:]+", "", "operations.get"),
        ("GET", _LOCATION, "/operations", "operations.list"),
    )
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client asks for. called: the method, such as `nodePools.create`. name: the resource, or its parent."""

    called: str
    name: str
    body: bytes = b""
    are_enums_numbers: bool = False


@dataclass(kw_only=True, eq=False)
class Trouble:
    """What goes wrong with requests that it strikes.

    strikes: which. code: of the answer instead; 0 breaks the connection. is_done: whether the work is done all the
    same. times: how often at most. struck: how often so far.
    """

    strikes: Callable[[Request], bool]
    code: int = 0
    is_done: bool = False
    times: int | None = None
    struck: int = 0

    def takes(self, request: Request) -> bool:
        if (self.times is not None and self.struck >= self.times) or not self.strikes(request):
            return False
        self.struck += 1
        return True


class Server(Serving):
    """Enter it to start it."""

    def __init__(self, pools: Pools, port: int = 0) -> None:
        super().__init__(_Handler, "fake-container", port)
        self.pools = pools
        self.asked: list[Request] = []
        self.troubles: list[Trouble] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self.pools.clock.start()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.pools.clock.stop()

    def answer(self, request: Request) -> tuple[int, dict[str, Any]] | None:
        """Status and body; None breaks the connection."""
        with self._lock:
            self.asked.append(request)
            trouble = next((one for one in self.troubles if one.takes(request)), None)
        if trouble and not trouble.is_done:
            return _broken(trouble)
        answer = self._done(request)
        return _broken(trouble) if trouble else answer

    def _done(self, request: Request) -> tuple[int, dict[str, Any]]:
        pools = self.pools
        try:
            with pools.clock.lock:
                pools.world.check(request.called, request.name)
                return 200, _written(_VERBS[request.called](pools, request), request)
        except Refused as refused:
            return refused.http, refused.body


def _broken(trouble: Trouble) -> tuple[int, dict[str, Any]] | None:
    if not trouble.code:
        return None
    words = {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}
    refused = Refused(words.get(trouble.code, "UNKNOWN"), "The service is currently unavailable.", http=trouble.code)
    return refused.http, refused.body


def _read(request: Request, kind: Any) -> Any:
    """The body as Google reads it: what it does not know is refused."""
    message = kind()
    try:
        json_format.Parse(request.body or b"{}", kind.pb(message))
    except json_format.ParseError as error:
        raise invalid(f"Invalid JSON payload received. {error}") from error
    return message


def _written(message: Any, request: Request) -> dict[str, Any]:
    pb = type(message).pb(message)
    return json_format.MessageToDict(pb, use_integers_for_enums=request.are_enums_numbers)


def _list_clusters(pools: Pools, request: Request) -> Any:
    found = [pools.described(name) for name in pools.clusters if _is_in(name, request.name)]
    return api.ListClustersResponse(clusters=found)


def _list_operations(pools: Pools, request: Request) -> Any:
    found = [message for name, message in pools.operations.messages.items() if _is_in(name, request.name)]
    return api.ListOperationsResponse(operations=found)


def _is_in(name: str, location: str) -> bool:
    """Whether it lies there; `-` is every location."""
    return name.startswith(f"{location}/".removesuffix("-/"))


def _create(pools: Pools, request: Request) -> Any:
    return pools.create(request.name, _read(request, api.CreateNodePoolRequest).node_pool)


def _set_size(pools: Pools, request: Request) -> Any:
    return pools.resize(request.name, _read(request, api.SetNodePoolSizeRequest).node_count)


def _set_autoscaling(pools: Pools, request: Request) -> Any:
    wanted = _read(request, api.SetNodePoolAutoscalingRequest).autoscaling

    def change(pool: api.NodePool) -> None:
        pool.autoscaling = wanted

    return pools.change(request.name, change)


def _update(pools: Pools, request: Request) -> Any:
    wanted = _read(request, api.UpdateNodePoolRequest)

    def change(pool: api.NodePool) -> None:
        if "labels" in wanted:
            pool.config.labels = wanted.labels.labels
        if "resource_labels" in wanted:
            pool.config.resource_labels = wanted.resource_labels.labels
        if wanted.locations:
            pool.locations = wanted.locations

    return pools.change(request.name, change)


_VERBS: dict[str, Callable[[Pools, Request], Any]] = {
    "clusters.get": lambda pools, request: pools.described(request.name),
    "clusters.list": _list_clusters,
    "nodePools.list": lambda pools, request: api.ListNodePoolsResponse(node_pools=pools.of(request.name)),
    "nodePools.get": lambda pools, request: pools.get(request.name).message,
    "nodePools.create": _create,
    "nodePools.update": _update,
    "nodePools.delete": lambda pools, request: pools.delete(request.name),
    "nodePools.setSize": _set_size,
    "nodePools.setAutoscaling": _set_autoscaling,
    "operations.get": lambda pools, request: pools.operations.get(request.name),
    "operations.list": _list_operations,
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: else each answer waits 40 ms for an acknowledgement
    server: Server

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        found = [
            (called, match)
            for verb, path, called in _ROUTES
            if verb == self.command and (match := path.fullmatch(url.path))
        ]
        if not found:
            self._send(404, not_found(url.path).body)
            return
        called, match = found[0]
        numbers = "enum-encoding=int" in dict(parse_qsl(url.query)).get("$alt", "")
        request = Request(
            called=called, name=match["name"].replace("/zones/", "/locations/"), body=body, are_enums_numbers=numbers
        )
        if answer := self.server.answer(request):
            self._send(*answer)
        else:
            self._break()

    do_POST = do_PUT = do_DELETE = do_GET

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _break(self) -> None:
        """As a network does: nothing more comes."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:
        return
