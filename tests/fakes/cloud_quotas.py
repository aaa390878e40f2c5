"""Google's Cloud Quotas API by REST, on loopback: limits of projects, as `quotaInfos` writes them."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from quota_catalogue import CATALOGUE, Known
from serving import Silence

VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDQUOTAS"
_PATH = re.compile(r"/v1/projects/([^/]+)/locations/([^/]+)/services/([^/]+)/quotaInfos/([^/]+)")

Dimensions = tuple[tuple[str, str], ...]


class CloudQuotas(Silence):
    """What a test says of Google's quotas, and what was asked.

    denied, switched_off: whether whoever asks lacks the right, or the project the API.
    trouble: `away` breaks connections, `busy` answers 503, `html` is something else on the way.
    writes_zeros: whether a value of zero is written, or left out as Google's JSON may.
    fixed: why no more can be asked for.
    forgotten: ids that Google knows no more.
    asked: paths, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.denied = self.switched_off = False
        self.trouble = ""
        self.writes_zeros = True
        self.fixed = ""
        self.forgotten: set[str] = set()
        self.asked: list[str] = []
        self.authorized: list[str | None] = []
        self.url = ""
        self._granted: dict[tuple[str, str], dict[Dimensions, int]] = {}

    def grant(self, quota: str, value: int, *, project: str = "research", **dimensions: str) -> None:
        """A value of a quota, for a region or zone, a `tpu_family`, both or neither; -1 is without a limit."""
        unknown = set(dimensions) - set(CATALOGUE[quota].dimensions)
        assert not unknown, f"{quota} has no {unknown}"
        self._granted.setdefault((project, quota), {})[tuple(sorted(dimensions.items()))] = value

    def answer(self, path: str) -> tuple[int, Any]:
        self.outlast_silence()
        match = _PATH.fullmatch(path)
        if match is None or match[2] != "global":
            return _error(400, "INVALID_ARGUMENT", f"{path} is no quota info of location global.")
        if self.switched_off or self.denied:
            reason = "SERVICE_DISABLED" if self.switched_off else "IAM_PERMISSION_DENIED"
            return _error(403, "PERMISSION_DENIED", f"Not for you in project {match[1]}.", reason)
        if self.trouble == "busy":
            return _error(503, "UNAVAILABLE", "The service is currently unavailable.")
        known = CATALOGUE.get(match[4]) if match[3] == "compute.googleapis.com" else None
        if known is None or match[4] in self.forgotten:
            return _error(404, "NOT_FOUND", f"Quota info {match[4]} of service {match[3]} was not found.")
        return 200, self._info(match[1], match[4], known)

    def _info(self, project: str, quota: str, known: Known) -> dict[str, Any]:
        granted = dict(self._granted.get((project, quota), {}))
        if known.default is not None:
            granted.setdefault((), known.default)
        # The more specific come first, and a location stands with the entry that holds there.
        entries = sorted(granted.items(), key=lambda item: -len(item[0]))
        return {
            "name": f"projects/1234/locations/global/services/compute.googleapis.com/quotaInfos/{quota}",
            "quotaId": quota,
            "metric": known.metric,
            "service": "compute.googleapis.com",
            "isPrecise": True,
            "containerType": "PROJECT",
            "dimensions": list(known.dimensions),
            "quotaIncreaseEligibility": {"ineligibilityReason": self.fixed} if self.fixed else {"isEligible": True},
            "dimensionsInfos": [
                {
                    **({"dimensions": dict(dimensions)} if dimensions else {}),
                    "details": {"value": str(value)} if value or self.writes_zeros else {},
                    "applicableLocations": _locations(dict(dimensions), granted, known),
                }
                for dimensions, value in entries
            ],
        }


def _locations(dimensions: dict[str, str], granted: dict[Dimensions, int], known: Known) -> list[str]:
    scope = known.dimensions[0]
    if scope in dimensions:
        return [dimensions[scope]]
    rest = {name: value for name, value in dimensions.items() if name != scope}
    taken = {
        dict(other)[scope]
        for other in granted
        if scope in dict(other) and {name: value for name, value in other if name != scope} == rest
    }
    return [place for place in known.places if place not in taken]


def _error(code: int, status: str, message: str, reason: str = "") -> tuple[int, Any]:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com"}
    details = {"details": [info]} if reason else {}
    return code, {"error": {"code": code, "message": message, "status": status, **details}}


@contextmanager
def running() -> Iterator[CloudQuotas]:
    """The API on a free port of this machine."""
    quotas = CloudQuotas()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            quotas.asked.append(path)
            quotas.authorized.append(self.headers.get("Authorization"))
            if quotas.trouble == "away":
                reset = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                self.connection.close()
                return
            code, content = quotas.answer(path)
            body = b"<html>Log in</html>" if quotas.trouble == "html" else json.dumps(content).encode()
            try:
                self.send_response(code)
                self.send_header("Content-Type", "application/json; charset=UTF-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # whoever asked has not waited
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="cloud quotas", daemon=True)
        thread.start()
        quotas.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield quotas
        finally:
            quotas._may_answer.set()
            server.shutdown()
            thread.join()
