"""The thinnest REST client of the API server: paths in, dicts out. For the machinery of this tier and for its tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import urllib3

Object = dict[str, Any]


class ApiError(Exception):
    """The API server refused.

    status: the HTTP status. reason: Kubernetes' word for it, such as `NotFound`.
    """

    def __init__(self, status: int, body: bytes) -> None:
        try:
            self.body: Object = json.loads(body)
        except ValueError:
            self.body = {"message": body.decode("utf-8", "replace")}
        self.status, self.reason = status, str(self.body.get("reason", ""))
        super().__init__(f"{status} {self.reason}: {self.body.get('message', '')}")


class Api:
    """Requests as one user."""

    def __init__(self, server: str, authority: str, token: str) -> None:
        self._server = server
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._pool = urllib3.PoolManager(ca_certs=authority, maxsize=64, retries=False)

    def get(self, path: str, **params: Any) -> Object:
        return self._json("GET", path, params=params)

    def post(self, path: str, body: Object, **params: Any) -> Object:
        return self._json("POST", path, body, params=params)

    def put(self, path: str, body: Object) -> Object:
        return self._json("PUT", path, body)

    def patch(self, path: str, body: Object, kind: str = "strategic-merge-patch") -> Object:
        """Change what is there; `kind` is `strategic-merge-patch` or, for custom resources, `merge-patch`."""
        return self._json("PATCH", path, body, kind=f"application/{kind}+json")

    def apply(self, path: str, body: Object, manager: str = "tests") -> Object:
        """Server-side apply: create or replace."""
        params = {"fieldManager": manager, "force": "true"}
        return self._json("PATCH", path, body, kind="application/apply-patch+yaml", params=params)

    def delete(self, path: str, body: Object | None = None, **params: Any) -> Object:
        return self._json("DELETE", path, body, params=params)

    def text(self, path: str, **params: Any) -> str:
        """What is no JSON: a pod's log, /readyz."""
        return self._request("GET", path, params=params).data.decode("utf-8", "replace")

    def watch(self, path: str, version: str, seconds: int = 300) -> Iterator[Object]:
        """The events after a resource version, until the server ends the watch."""
        params = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": seconds}
        response = self._request("GET", path, params=params, is_stream=True, seconds=seconds + 30)
        rest = b""
        try:
            while chunk := response.read1(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (json.loads(line) for line in lines if line)
        finally:
            response.close()

    def _json(self, method: str, path: str, body: Object | None = None, **how: Any) -> Object:
        found: Object = json.loads(self._request(method, path, body, **how).data or b"{}")
        return found

    def _request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        kind: str = "application/json",
        params: dict[str, Any] | None = None,
        **how: Any,
    ) -> urllib3.BaseHTTPResponse:
        response = self._pool.request(
            method,
            self._server + path + (f"?{urlencode(params)}" if params else ""),
            body=None if body is None else json.dumps(body),
            headers={**self._headers, "Content-Type": kind},
            timeout=urllib3.Timeout(connect=5, read=how.get("seconds", 60)),
            preload_content=not how.get("is_stream"),
        )
        if response.status >= 400:
            raise ApiError(response.status, response.data)
        return response
