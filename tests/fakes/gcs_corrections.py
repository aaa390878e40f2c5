"""Stands before the fake Cloud Storage and corrects it where it differs from Google's documented behaviour.

Found by trying fake-gcs-server (2026-11):

- preconditions (`ifGenerationMatch`) count for multipart uploads only; here for every write, compose and delete;
- asking a resumable upload how far it is ends it; here it answers as documented;
- with `delimiter` each page repeats all prefixes, which `maxResults` does not count; here each comes once, in order;
- `fields` is ignored; here what was not asked for is left out of lists and objects;
- `md5Hash` of an upload is taken unseen; here bytes that differ from it are refused.

It can also break like a network does: see `Trouble`.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

_OBJECT = re.compile(r"(?:/download|/upload)?/storage/v1/b/([^/]+)/o(?:/([^/]+))?(/compose)?")
_PAGE = 1000
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "date", "server"}


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for, taken apart."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def place(self) -> tuple[str, str] | None:
        """(bucket, object); the object is empty for a list and None-like for anything that is no object's."""
        match = _OBJECT.fullmatch(urlsplit(self.target).path)
        if match is None:
            return None
        return unquote(match[1]), unquote(match[2] or "") or self.query.get("name", "") or self._named

    @property
    def _named(self) -> str:
        return str(self.metadata.get("name", ""))

    @property
    def metadata(self) -> dict[str, Any]:
        """What an upload says of its object: its JSON body, or the first part of it."""
        if self.query.get("uploadType") == "multipart":
            return dict(json.loads(self.parts[0]))
        if self.query.get("uploadType") == "resumable" and self.method == "POST":
            return dict(json.loads(self.body or b"{}"))
        return {}

    @property
    def parts(self) -> tuple[bytes, bytes]:
        boundary = message_from_bytes(f"Content-Type: {self.headers['content-type']}\n\n".encode()).get_boundary() or ""
        _, about, content, _ = self.body.split(b"--" + boundary.encode(), 3)
        return about.partition(b"\r\n\r\n")[2], content.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")

    def asking(self, **query: str | None) -> Request:
        """The same request with other values in its query."""
        kept = {key: value for key, value in {**self.query, **query}.items() if value is not None}
        url = urlsplit(self.target)
        return Request(self.method, f"{url.path}?{urlencode(kept)}", self.headers, self.body)

    def saying(self, **headers: str) -> Request:
        """The same request with other headers."""
        return Request(self.method, self.target, {**self.headers, **headers}, self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes back."""

    code: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def refusal(code: int, reason: str, message: str) -> Answer:
    """An error in the words of the JSON API."""
    error = {"code": code, "message": message, "errors": [{"domain": "global", "reason": reason, "message": message}]}
    return Answer(code, {"Content-Type": "application/json"}, json.dumps({"error": error}).encode())


_NOT_MET = refusal(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
_WRONG_HASH = refusal(400, "invalid", "Provided MD5 hash doesn't match calculated MD5 hash.")


def _base64(digest: Any) -> str:
    return base64.b64encode(digest.digest()).decode()


@dataclass(slots=True)
class Session:
    """A resumable upload under way."""

    condition: str | None
    place: tuple[str, str]
    told: str | None
    digest: Any = field(default_factory=hashlib.md5)
    received: int = 0
    done: Answer | None = None


class Corrections:
    """The corrected fake: a function from request to answer, safe to call from many threads."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._here = threading.local()
        self._locks: dict[tuple[str, str], threading.RLock] = defaultdict(threading.RLock)
        self._sessions: dict[str, Session] = {}
        self.page = _PAGE  # names in a part of a list

    def answer(self, request: Request) -> Answer:
        upload = request.query.get("upload_id")
        if upload in self._sessions and request.method == "PUT":
            return self._resume(request, self._sessions[upload])
        if request.place is None:
            return self._forward(request)
        if request.method == "GET":
            return self._read(request)
        with self._locks[request.place]:
            return self._write(request, request.place)

    def leave(self) -> None:
        """This thread asks no more."""
        if hasattr(self._here, "connection"):
            self._here.connection.close()
            del self._here.connection

    def _read(self, request: Request) -> Answer:
        is_list = request.place is not None and not request.place[1]
        if is_list:
            request = request.asking(maxResults=str(min(self.page, int(request.query.get("maxResults", _PAGE)))))
        found = self._delimited(request) if is_list and request.query.get("delimiter") else self._forward(request)
        is_json = found.code == 200 and "json" in found.headers.get("Content-Type", "")
        if "fields" not in request.query or not is_json or request.query.get("alt") == "media":
            return found
        return Answer(200, found.headers, json.dumps(only(request.query["fields"], found.json)).encode())

    def _write(self, request: Request, place: tuple[str, str]) -> Answer:
        condition = request.query.get("ifGenerationMatch")
        if request.query.get("uploadType") == "resumable":
            started = self._forward(request)
            upload = dict(parse_qsl(urlsplit(started.headers.get("Location", "")).query)).get("upload_id")
            if upload is not None:
                self._sessions[upload] = Session(condition, place, request.metadata.get("md5Hash"))
            return started
        if not self._holds(place, condition):
            return _NOT_MET
        told = request.metadata.get("md5Hash")
        if told and told != _base64(hashlib.md5(request.parts[1])):
            return _WRONG_HASH
        return self._forward(request.asking(ifGenerationMatch=None))

    def _resume(self, request: Request, session: Session) -> Answer:
        with self._locks[session.place]:
            if session.done is not None:
                return session.done
            span, _, total = request.headers.get("content-range", "").removeprefix("bytes ").partition("/")
            if span == "*" and total != "0":  # a question: how much is there?
                return Answer(308, _range(session.received))
            is_last = total not in ("", "*") and session.received + len(request.body) == int(total)
            if is_last and not self._holds(session.place, session.condition):
                return _NOT_MET
            session.digest.update(request.body)
            if is_last and session.told not in (None, _base64(session.digest)):
                return _WRONG_HASH
            found = self._forward(request if is_last else request.saying(**{"content-range": f"bytes {span}/*"}))
            session.received += len(request.body)
            if not is_last:
                return Answer(308, _range(session.received))
            session.done = found
            return found

    def _holds(self, place: tuple[str, str], condition: str | None) -> bool:
        if condition is None:
            return True
        bucket, name = place
        seen = self._forward(Request("GET", f"/storage/v1/b/{quote(bucket, '')}/o/{quote(name, '')}", {}, b""))
        return (seen.json["generation"] if seen.code == 200 else "0") == condition

    def _delimited(self, request: Request) -> Answer:
        """A page of a list with a delimiter, as documented: items and prefixes in one order, counted together."""
        everything = list(self._pages(request.asking(delimiter=None, maxResults=None, pageToken=None, fields=None)))
        if everything[-1].code != 200:
            return everything[-1]
        delimiter, prefix = request.query["delimiter"], request.query.get("prefix", "")
        entries: dict[str, dict[str, Any] | None] = {}
        for item in (item for page in everything for item in page.json.get("items", [])):
            below, found, _ = item["name"][len(prefix) :].partition(delimiter)
            entries[prefix + below + found] = None if found else item
        after, most = request.query.get("pageToken", ""), int(request.query.get("maxResults", _PAGE))
        left = sorted(name for name in entries if name > after)
        page = left[:most]
        listed = {
            "kind": "storage#objects",
            "items": [entries[name] for name in page if entries[name] is not None],
            "prefixes": [name for name in page if entries[name] is None],
            **({"nextPageToken": page[-1]} if len(left) > most else {}),
        }
        return Answer(200, {"Content-Type": "application/json"}, json.dumps(listed).encode())

    def _pages(self, request: Request) -> Iterator[Answer]:
        token: str | None = None
        while True:
            page = self._forward(request.asking(pageToken=token))
            yield page
            token = page.json.get("nextPageToken") if page.code == 200 else None
            if token is None:
                return

    def _forward(self, request: Request) -> Answer:
        """To the fake itself, over one connection per thread."""
        for is_last in (False, True):
            if not hasattr(self._here, "connection"):
                self._here.connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            try:
                headers = {key: value for key, value in request.headers.items() if key not in _HOP}
                self._here.connection.request(request.method, request.target, request.body, headers)
                found = self._here.connection.getresponse()
                kept = {key: value for key, value in found.headers.items() if key.lower() not in _HOP}
                return Answer(found.status, kept, found.read())
            except (ConnectionError, http.client.HTTPException):  # a connection that was kept too long
                self.leave()
                if is_last:
                    raise
        raise AssertionError("one of two tries answers or raises")


def _range(received: int) -> dict[str, str]:
    return {"Range": f"bytes=0-{received - 1}"} if received else {}


def only(fields: str, found: Any) -> Any:
    """What `fields` asks for, such as `nextPageToken,items(name,size)`."""
    wanted = {name: inner for name, _, inner in re.findall(r"(\w+)(\(([^)]*)\))?", fields)}
    return {
        key: [only(wanted[key], item) for item in value] if wanted.get(key) else value
        for key, value in found.items()
        if key in wanted
    }


@dataclass(slots=True)
class Trouble:
    """What goes wrong with a request that is meant by `strikes`, as often as `times` says.

    code: the answer; 0 breaks the connection without one.
    is_done: whether the request is carried out all the same, so that only the answer is lost.
    cuts: the answer is the right one and breaks off in its middle.
    spoils: the answer is the right one but for a bit.
    """

    strikes: Callable[[Request], bool]
    code: int = 503
    times: int = 1
    is_done: bool = False
    cuts: bool = False
    spoils: bool = False
    headers: dict[str, str] = field(default_factory=dict)


class Proxy(ThreadingHTTPServer):
    """Serves the corrected fake on a free loopback port."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int) -> None:
        self.corrections = Corrections(port)
        self.troubles: list[Trouble] = []
        self.asked: list[Request] = []
        self._changing = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # else: whoever asked was killed
            super().handle_error(request, client_address)

    def trouble_for(self, request: Request) -> Trouble | None:
        with self._changing:
            self.asked.append(request)
            for trouble in self.troubles:
                if trouble.times > 0 and trouble.strikes(request):
                    trouble.times -= 1
                    return trouble
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Proxy

    def _serve(self) -> None:
        request = Request(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, self._body())
        trouble = self.server.trouble_for(request)
        if trouble is None or trouble.is_done or trouble.cuts or trouble.spoils:
            answer = self.server.corrections.answer(request)
        if trouble is not None and trouble.cuts:
            self._send(answer, shown=len(answer.body) // 2)
            return
        if trouble is not None and trouble.spoils:
            self._send(replace(answer, body=bytes([answer.body[0] ^ 1]) + answer.body[1:]))
            return
        if trouble is not None and trouble.code == 0:
            self.close_connection = True
            return
        if trouble is not None:
            answer = refusal(trouble.code, "backendError", "Trouble that a test asked for.")
            answer.headers.update(trouble.headers)
        self._send(answer)

    def _send(self, answer: Answer, shown: int | None = None) -> None:
        self.send_response(answer.code)
        for name, value in answer.headers.items():
            self.send_header(name, value.replace(f":{self.server.corrections._port}", f":{self.server.server_port}"))
        self.send_header("Content-Length", str(len(answer.body)))
        with suppress(ConnectionError):  # whoever asked was killed, or had enough
            self.end_headers()
            self.wfile.write(answer.body[:shown])
        self.close_connection = self.close_connection or shown is not None

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def finish(self) -> None:
        self.server.corrections.leave()
        super().finish()

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _serve

    def log_message(self, format: str, *args: object) -> None:
        """A test's output is its own."""
