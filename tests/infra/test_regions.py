"""How a flow and its hosts speak of regions: over real sockets, with the right key and with wrong ones."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra import regions
from prefect_tpu.infra.regions import GREETING, Channel, KeyRefused, Message, NotReached

KEY, MARK = "5e" * 32, "/out/digits/3"
HELLO = {"role": "host", "host": 1, "mark": MARK}
MEETING = Message(kind="begin", facts={"number": 1}, parts=(b"code", b""))


class Agent:
    """One call is answered as a leader's agent does; what came of it is kept."""

    def __init__(self, server: socket.socket, key: str) -> None:
        self.address = f"127.0.0.1:{server.getsockname()[1]}"
        self._server, self._key = server, key
        self.said: dict[str, Any] = {}
        self.channel: Channel | None = None
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._answer)

    def _answer(self) -> None:
        connection, _ = self._server.accept()
        try:
            self.said, self.channel = regions.answer(connection, self._key, MARK)
        except (KeyRefused, OSError, ValueError) as exc:
            self.error = exc
            connection.close()


@contextmanager
def answering(key: str = KEY) -> Iterator[Agent]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        agent = Agent(server, key)
        agent.thread.start()
        yield agent
        agent.thread.join(20)
        if agent.channel is not None:
            agent.channel.close()


@contextmanager
def connected() -> Iterator[tuple[Channel, Channel]]:
    """A caller's end and the agent's."""
    with answering() as agent:
        caller = regions.call(agent.address, KEY, HELLO, 20)
        agent.thread.join(20)
        assert agent.channel is not None
        assert agent.said == HELLO
        yield caller, agent.channel
        caller.close()


def test_both_ends_speak_once_they_know_each_other() -> None:
    with connected() as (caller, agent):
        caller.send(MEETING)
        assert agent.receive() == MEETING
        agent.send(Message(kind="over"))
        agent.send(Message(kind="lost", facts={"why": "…"}))
        assert [caller.receive().kind, caller.receive().kind] == ["over", "lost"]


def test_a_caller_with_another_key_is_sent_away_and_told() -> None:
    with answering() as agent:
        with pytest.raises(KeyRefused, match="does not take the region key of this process"):
            regions.call(agent.address, "00" * 32, HELLO, 20)
        agent.thread.join(20)
        assert isinstance(agent.error, KeyRefused)
        assert agent.said == {}


def test_a_caller_of_another_attempt_goes_on_trying_until_its_time_is_up() -> None:
    with answering() as agent, pytest.raises(NotReached, match="host 0") as raised:
        regions.call(agent.address, KEY, {**HELLO, "mark": "/out/digits/2"}, 0.05)
    assert "belongs to another attempt" in str(raised.value) or "timed out" in str(raised.value)


def test_whoever_listens_without_knowing_the_key_is_sent_nothing() -> None:
    """It answers yes to everybody, with a proof that it made up."""
    heard = bytearray()

    def pretend(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(GREETING + bytes(32))
            connection.recv(4096)
            connection.sendall(b"y" + bytes(32))
            while block := connection.recv(4096):
                heard.extend(block)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=pretend, args=(server,))
        thread.start()
        with pytest.raises(KeyRefused, match="does not know the region key of this job: nothing was sent there"):
            regions.call(f"127.0.0.1:{server.getsockname()[1]}", KEY, HELLO, 20)
        thread.join(20)
    assert heard == b""


def test_nobody_there_is_said_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(NotReached, match=rf"at {address}, which starts the regions of this flow, did not answer"):
        regions.call(address, KEY, HELLO, 0.05)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n" + bytes(200),
        GREETING + bytes(32) + (2**31).to_bytes(4),
        GREETING + bytes(32) + (2).to_bytes(4) + b"{}" + bytes(32),
    ],
)
def test_of_a_stranger_nothing_beyond_a_greeting_is_read(sent: bytes) -> None:
    with answering() as agent:
        with socket.create_connection(("127.0.0.1", int(agent.address.rpartition(":")[2]))) as stranger:
            stranger.sendall(sent)
            agent.thread.join(20)
        assert isinstance(agent.error, KeyRefused | ConnectionError)


def test_what_somebody_else_puts_between_is_refused() -> None:
    """A pair of ends with different keys stands for bytes that were changed on their way."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Channel(ours, b"session", is_server=False).send(MEETING)
        with pytest.raises(ConnectionError, match="not signed by the other end"):
            Channel(theirs, b"another", is_server=True).receive()


def test_a_message_that_is_sent_twice_is_refused() -> None:
    ours, between = socket.socketpair()
    relay, theirs = socket.socketpair()
    with ours, between, relay, theirs:
        Channel(ours, b"session", is_server=False).send(MEETING)
        relay.sendall(between.recv(4096) * 2)
        there = Channel(theirs, b"session", is_server=True)
        relay.shutdown(socket.SHUT_WR)
        first = Message(kind="begin", facts={"number": 1}, parts=(b"code", b""))
        assert there.receive() == first
        with pytest.raises(ConnectionError, match="not signed by the other end"):
            there.receive()


def test_an_announced_size_beyond_the_limit_is_refused_unread() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall((regions.LARGEST_BYTES + 1).to_bytes(8) + bytes(32))
        with pytest.raises(ConnectionError, match="more than may travel"):
            Channel(theirs, b"session", is_server=True).receive()


@given(st.binary(max_size=200))
def test_no_bytes_are_read_as_a_message_by_accident(raw: bytes) -> None:
    try:
        found = Message.from_bytes(raw)
    except ConnectionError:
        return
    assert Message.from_bytes(b"".join(found.to_bytes())) == found


@given(st.text(max_size=20), st.dictionaries(st.text(max_size=5), st.integers()), st.lists(st.binary(max_size=50)))
def test_a_message_survives_its_way(kind: str, facts: dict[str, int], parts: list[bytes]) -> None:
    message = Message(kind=kind, facts=facts, parts=tuple(parts))
    assert Message.from_bytes(b"".join(message.to_bytes())) == message


def test_two_regions_after_one_another_meet_at_different_ports() -> None:
    address = "127.0.0.1:18200"  # below what systems hand out, and no other test's
    first, second = regions.coordinator(address, 1), regions.coordinator(address, 2)
    assert first != second
    with socket.create_server(("127.0.0.1", int(second.rpartition(":")[2]))):
        assert regions.coordinator(address, 2) not in (first, second), "a port that is taken is passed over"
