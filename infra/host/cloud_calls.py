"""How is a request sent to Google from a host, and when is it sent again? By urllib, for a host has nothing else."""

from __future__ import annotations

import http.client
import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from typing import IO, Protocol, TypeVar

NOT_NOW = frozenset({408, 429, 500, 502, 503, 504})  # https://cloud.google.com/storage/docs/retry-strategy, 2026-11
LONGEST_ASKED = 60.0  # seconds that a server is left alone, whatever it asks for
_SHOWN = 500  # characters of what an answer says
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Every bound of a request, in seconds but for `tries`.

    timeout: without a byte, until a connection counts as dead.
    first_pause, longest_pause: between two tries; drawn at random below a bound that doubles.
    """

    timeout: float = 60.0
    tries: int = 7
    first_pause: float = 0.5
    longest_pause: float = 16.0

    def pause(self, tried: int, asked: float, drawn: float) -> float:
        """Seconds until the next try, after so many; `drawn` lies between 0 and 1."""
        return max(min(asked, LONGEST_ASKED), drawn * min(self.first_pause * 2.0**tried, self.longest_pause))


class CallFailed(Exception):
    """A request that was not answered as hoped.

    code: of the answer; 0 where none came.
    asked: seconds that the server wants to be left alone.
    """

    def __init__(self, code: int, said: str, asked: float = 0.0, headers: Message[str, str] | None = None) -> None:
        self.code, self.said, self.asked, self.headers = code, said, asked, headers or Message()
        super().__init__(f"HTTP {code}: {said}" if code else said)

    @property
    def is_worth_repeating(self) -> bool:
        return self.code == 0 or self.code in NOT_NOW


class Token(Protocol):
    """Whose rights a request has."""

    def header(self) -> dict[str, str]: ...

    def forget(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, whole: it can be sent again."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back, read."""

    headers: Message[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        return dict(json.loads(self.body))


class Caller:
    """Sends requests with the rights of a token."""

    def __init__(self, token: Token, patience: Patience) -> None:
        self._token, self._patience = token, patience

    def ask(self, call: Call) -> Answer:
        """The answer to a request that does no harm when it is sent twice. Raises `CallFailed`."""
        return self.persevere(lambda: self.once(call))

    def once(self, call: Call) -> Answer:
        """The answer, at the first try. Raises `CallFailed`."""
        with self.open(call) as answer:
            return Answer(headers=answer.headers, body=answer.read())

    @contextmanager
    def open(self, call: Call) -> Iterator[http.client.HTTPResponse]:
        """An answer to be read, which a `CallFailed` may interrupt."""
        try:
            with self._opened(call) as answer:
                yield answer
        except urllib.error.HTTPError as exc:
            if exc.code == 401:
                self._token.forget()
            raise CallFailed(exc.code, _said(exc), _seconds(exc.headers.get("Retry-After")), exc.headers) from exc
        except (OSError, http.client.HTTPException) as exc:
            raise CallFailed(0, str(exc) or type(exc).__name__) from exc

    def persevere(self, ask: Callable[[], Value]) -> Value:
        """Ask until there is an answer, for so many tries; once more where only the token was too old."""
        tried, is_renewed = 0, False
        while True:
            try:
                return ask()
            except CallFailed as exc:
                tried += 1
                is_old_token = exc.code == 401 and not is_renewed
                is_renewed = is_renewed or is_old_token
                if not (exc.is_worth_repeating or is_old_token) or tried >= self._patience.tries:
                    raise
                time.sleep(self._patience.pause(tried - 1, exc.asked, random.random()))

    def _opened(self, call: Call) -> http.client.HTTPResponse:
        try:
            rights = self._token.header()
        except OSError as exc:
            raise CallFailed(0, f"this machine's metadata server gives no token ({exc})") from exc
        request = urllib.request.Request(call.url, call.body, {**rights, **call.headers}, method=call.method)
        return _open(request, self._patience.timeout)


def blocks(answer: http.client.HTTPResponse, size: int) -> Iterator[bytes]:
    """What an answer holds, piece by piece. Raises `CallFailed` where it breaks off."""
    try:
        while block := answer.read(size):
            yield block
    except (OSError, http.client.HTTPException) as exc:
        raise CallFailed(0, str(exc) or type(exc).__name__) from exc


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """308 is how a resumable upload says that it goes on, and leads nowhere."""

    def http_error_308(self, req: object, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def _open(request: urllib.request.Request, timeout: float) -> http.client.HTTPResponse:
    answer: http.client.HTTPResponse = _OPENER.open(request, timeout=timeout)
    return answer


def _said(exc: urllib.error.HTTPError) -> str:
    """The message of Google's error, or whatever stands between us and Google says instead."""
    try:
        raw = exc.read(10 * _SHOWN)
        return str(json.loads(raw)["error"]["message"])[:_SHOWN]
    except (ValueError, KeyError, TypeError):
        return raw[:_SHOWN].decode(errors="replace").strip()
    except (OSError, http.client.HTTPException):
        return exc.reason


def _seconds(retry_after: str | None) -> float:
    return float(retry_after) if retry_after and retry_after.isdigit() else 0.0
