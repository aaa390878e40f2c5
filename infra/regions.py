"""How do a flow and the hosts of its slice speak of regions? Over TCP, each proving first that it knows the job's key.

The leader's agent listens; the other hosts' agents and the flow call it. Nothing that a stranger sends is read beyond
a greeting of fixed size, and every message after it is signed with a key of that connection alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prefect_tpu.infra import addresses
from prefect_tpu.infra.errors import PlatformError

GREETING = b"prefect-tpu regions 1\n"
HELLO_SECONDS = 10.0  # in which both must have said who they are
LARGEST_HELLO_BYTES = 4096
LARGEST_HEAD_BYTES = 2**20
LARGEST_BYTES = 2**30  # of a message: a function with its arguments, or what all hosts returned of it
PORTS = 64  # after the one where hosts meet for regions: where the hosts of each region meet, by turns
_PAUSE = 0.1  # seconds between two tries to reach the leader
_NONCE = _PROOF = 32
_YES, _OTHER_KEY, _OTHER_ATTEMPT = b"y", b"k", b"a"
_LENGTH = struct.Struct(">Q")
_SHORT = struct.Struct(">I")


class KeyRefused(PlatformError):
    """One of both does not know the job's key, or is of another attempt."""


class NotReached(PlatformError):
    """Nobody who speaks of regions answered in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message: its kind, what it says as JSON, and bytes that belong to it."""

    kind: str
    facts: dict[str, Any] = field(default_factory=dict)
    parts: tuple[bytes, ...] = ()

    def to_bytes(self) -> tuple[bytes, ...]:
        head = json.dumps({"kind": self.kind, "facts": self.facts, "sizes": [len(part) for part in self.parts]})
        return _SHORT.pack(len(head.encode())), head.encode(), *self.parts

    @classmethod
    def from_bytes(cls, raw: bytes) -> Message:
        """Raises `ConnectionError` for what is no message."""
        view = memoryview(raw)
        try:
            (size,) = _SHORT.unpack(view[: _SHORT.size])
            if size > LARGEST_HEAD_BYTES:
                raise ValueError(f"a head of {size} bytes")
            head = json.loads(bytes(view[_SHORT.size :][:size]))
            return cls(kind=head["kind"], facts=head["facts"], parts=_cut(view[_SHORT.size + size :], head["sizes"]))
        except (struct.error, ValueError, KeyError, TypeError) as exc:
            raise ConnectionError(f"what came is no message of a region: {exc}") from exc


def _cut(rest: memoryview, sizes: list[int]) -> tuple[bytes, ...]:
    found = []
    for size in sizes:
        found.append(bytes(rest[:size]))
        rest = rest[size:]
    if rest or [len(part) for part in found] != sizes:
        raise ValueError("its parts are not as long as it says")
    return tuple(found)


class Channel:
    """Messages both ways over a connection whose ends have proved that they know the key. Many threads may send."""

    def __init__(self, connection: socket.socket, key: bytes, *, is_server: bool) -> None:
        self._connection, self._key = connection, key
        self._own, self._other = (b"s", b"c") if is_server else (b"c", b"s")
        self._sent = self._received = 0
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Raises `OSError` where the other end is gone, and `ValueError` for what is too large."""
        parts = message.to_bytes()
        size = sum(map(len, parts))
        if size > LARGEST_BYTES:
            raise ValueError(f"a message of {size >> 20} MiB, at most {LARGEST_BYTES >> 20} MiB may travel")
        with self._lock:
            proof = _sealed(self._key, self._own, self._sent, size, *parts)
            self._sent += 1
            for part in (_LENGTH.pack(size) + proof, *parts):
                self._connection.sendall(part)

    def receive(self) -> Message:
        """The next message, waited for. Raises `OSError` where the other end is gone or somebody else meddled."""
        head = _read(self._connection, _LENGTH.size + _PROOF)
        length, proof = head[: _LENGTH.size], head[_LENGTH.size :]
        (size,) = _LENGTH.unpack(length)
        if size > LARGEST_BYTES:
            raise ConnectionError(f"a message of {size} bytes is announced, more than may travel")
        raw = _read(self._connection, size)
        if not hmac.compare_digest(proof, _sealed(self._key, self._other, self._received, size, raw)):
            raise ConnectionError("a message was not signed by the other end")
        self._received += 1
        return Message.from_bytes(raw)

    def close(self) -> None:
        """Also for a thread that receives."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def call(address: str, key: str, hello: dict[str, Any], seconds: float) -> Channel:
    """Reach the leader's agent, however long it takes to be there.

    Args:
        address: of the plan, `address:port`.
        key: the job's.
        hello: who calls: `role`, `host` where it is one, and `mark`, the attempt's.
        seconds: to try at most.

    Raises:
        KeyRefused: the agent there does not take this key, or does not know it.
        NotReached: nobody answered.
    """
    give_up, last = time.monotonic() + seconds, "nobody listens there"
    while True:
        try:
            connection = socket.create_connection(addresses.split(address), timeout=_left(give_up))
        except OSError as exc:
            last = exc.strerror or str(exc)
        else:
            try:
                return _introduced(connection, key.encode(), json.dumps(hello).encode(), address)
            except KeyRefused:
                connection.close()
                raise
            except OSError as exc:
                connection.close()
                last = str(exc)
        if time.monotonic() >= give_up:
            raise NotReached(
                f"The leader's agent at {address}, which starts the regions of this flow, did not answer within"
                f" {seconds:g} s ({last}). Look at the log of host 0."
            )
        time.sleep(min(_PAUSE, _left(give_up)))


def _introduced(connection: socket.socket, key: bytes, hello: bytes, address: str) -> Channel:
    connection.settimeout(HELLO_SECONDS)
    if (greeting := _read(connection, len(GREETING))) != GREETING:
        raise ConnectionError(f"who listens there says {greeting[:12]!r}, and is no agent of ours")
    theirs, own = _read(connection, _NONCE), secrets.token_bytes(_NONCE)
    proof = _signed(key, b"client", theirs, own, hello)
    connection.sendall(GREETING + own + _SHORT.pack(len(hello)) + hello + proof)
    answer = _read(connection, len(_YES))
    if answer == _OTHER_ATTEMPT:
        raise ConnectionError("the agent there belongs to another attempt")
    if answer != _YES:
        raise KeyRefused(
            f"The leader's agent at {address} does not take the region key of this process. All hosts of a job and its"
            " flow have one key: look where this one got its own."
        )
    if not hmac.compare_digest(_read(connection, _PROOF), _signed(key, b"server", own, theirs, hello)):
        raise KeyRefused(f"Who listens at {address} does not know the region key of this job: nothing was sent there.")
    return _opened(connection, _signed(key, b"session", own, theirs), is_server=False)


def answer(connection: socket.socket, key: str, mark: str) -> tuple[dict[str, Any], Channel]:
    """The leader's side of a call: what the caller said of itself, and the way to speak to it.

    Raises:
        KeyRefused: the caller does not know the key, or is of another attempt.
        OSError: it did not say who it is in time.
    """
    connection.settimeout(HELLO_SECONDS)
    own = secrets.token_bytes(_NONCE)
    connection.sendall(GREETING + own)
    if _read(connection, len(GREETING)) != GREETING:
        raise ConnectionError("the caller does not speak of regions")
    theirs = _read(connection, _NONCE)
    (size,) = _SHORT.unpack(_read(connection, _SHORT.size))
    if size > LARGEST_HELLO_BYTES:
        raise ConnectionError("the caller says too much of itself")
    hello = _read(connection, size)
    if not hmac.compare_digest(_read(connection, _PROOF), _signed(key.encode(), b"client", own, theirs, hello)):
        connection.sendall(_OTHER_KEY)
        raise KeyRefused("A caller did not know the region key of this job.")
    said: dict[str, Any] = json.loads(hello)
    if said.get("mark") != mark:
        connection.sendall(_OTHER_ATTEMPT)
        raise KeyRefused(f"A caller belongs to {said.get('mark')}, and this is {mark}.")
    connection.sendall(_YES + _signed(key.encode(), b"server", theirs, own, hello))
    return said, _opened(connection, _signed(key.encode(), b"session", theirs, own), is_server=True)


def _opened(connection: socket.socket, key: bytes, *, is_server: bool) -> Channel:
    """A region may run for days without a word: that the other end's machine is gone, the kernel finds out."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 30_000)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return Channel(connection, key, is_server=is_server)


def coordinator(regions: str, number: int) -> str:
    """Where the hosts of a region meet: no two regions after one another at the same port. Asked on the leader.

    Raises `PlatformError` where all ports are taken.
    """
    name, port = addresses.split(regions)
    shown = regions.rpartition(":")[0]
    for candidate in _ports(port, number):
        with contextlib.suppress(OSError), addresses.listen(f"{name}:{candidate}"):
            return f"{shown}:{candidate}"
    raise PlatformError(f"No port of {port + 1} to {port + PORTS} is free on host 0 for the hosts of a region to meet.")


def _ports(port: int, number: int) -> Iterator[int]:
    return (port + 1 + (number + offset) % PORTS for offset in range(PORTS))


def _signed(key: bytes, *parts: bytes) -> bytes:
    """Each part with its length before it, so that no two lists of parts are signed alike."""
    signing = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        signing.update(_LENGTH.pack(len(part)))
        signing.update(part)
    return signing.digest()


def _sealed(key: bytes, direction: bytes, number: int, size: int, *parts: bytes) -> bytes:
    """Of a message: which one it is of which end, and all of it, however it is cut."""
    sealing = hmac.new(key, direction + _LENGTH.pack(number) + _LENGTH.pack(size), hashlib.sha256)
    for part in parts:
        sealing.update(part)
    return sealing.digest()


def _read(connection: socket.socket, size: int) -> bytes:
    found = bytearray(size)
    view = memoryview(found)
    while view:
        got = connection.recv_into(view)
        if not got:
            raise ConnectionError("the other end has closed the connection")
        view = view[got:]
    return bytes(found)


def _left(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())
