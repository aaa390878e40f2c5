"""Hosts meet before JAX is asked: complete or not at all, and whoever is missing is named."""

from __future__ import annotations

import socket
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

from prefect_tpu.infra.addresses import own_loopback
from prefect_tpu.infra.errors import CouldNotJoin
from prefect_tpu.infra.training.meeting import Advice, wait_for_hosts

pytestmark = pytest.mark.slices  # it waits for real time to pass

WORD = "digits-3"


def free_address() -> str:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"


def meet(pool: ThreadPoolExecutor, address: str, host: int, hosts: int, **changes: object) -> Future[None]:
    values = {"word": WORD, "timeout": 30.0, **changes}
    return pool.submit(wait_for_hosts, address, host=host, hosts=hosts, **values)  # type: ignore[arg-type]


def test_all_go_on_when_the_last_one_is_there() -> None:
    address, word = free_address(), f"{WORD} of a long näme {'x' * 500}"
    with ThreadPoolExecutor(4) as pool:
        early = [meet(pool, address, host, 4, word=word) for host in (3, 0, 1)]
        assert not wait(early, timeout=0.3).done
        for future in [*early, meet(pool, address, 2, 4, word=word)]:
            future.result(timeout=30)
    with socket.create_server(("127.0.0.1", int(address.rpartition(":")[2]))) as server:
        assert server.fileno() > 0  # the port is JAX's now


def test_who_is_missing_is_named() -> None:
    address = free_address()
    with ThreadPoolExecutor(2) as pool:
        leader = meet(pool, address, 0, 12, timeout=0.5)
        other = meet(pool, address, 5, 12, timeout=0.5)
        with pytest.raises(CouldNotJoin, match=r"of its 12 hosts 1, 2, 3, 4, 6, 7, 8, 9 and 2 more did not come"):
            leader.result()
        with pytest.raises(CouldNotJoin, match=r"Host 5 of digits-3 was not called by the leader at 127\.0\.0\.1"):
            other.result()


def test_a_port_that_was_taken_meanwhile_is_no_error_of_the_program() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CouldNotJoin, match=rf"its leader cannot listen at port {port} .* the next attempt looks"):
            wait_for_hosts(f"127.0.0.1:{port}", WORD, 0, 2, 30.0)
        with pytest.raises(CouldNotJoin, match=r"already in use.*\)\. Give another port\.$"):
            wait_for_hosts(f"127.0.0.1:{port}", WORD, 0, 2, 30.0, Advice(taken="Give another port."))


def test_strangers_and_stragglers_are_not_counted() -> None:
    address = free_address()
    port = int(address.rpartition(":")[2])
    with ThreadPoolExecutor(3) as pool:
        leader = meet(pool, address, 0, 2)
        straggler = meet(pool, address, 1, 2, word="digits-2", timeout=1.0)
        with pytest.raises(CouldNotJoin):
            straggler.result()
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\xff\n")
            assert stranger.recv(1) == b""
        assert not leader.done()
        meet(pool, address, 1, 2).result(timeout=30)
        leader.result(timeout=30)


def test_leaders_with_addresses_of_their_own_share_a_port() -> None:
    port = free_address().rpartition(":")[2]
    with ThreadPoolExecutor(4) as pool:
        places = [(f"127.0.0.{number}:{port}", f"job{number}-1") for number in (2, 3)]
        leaders = [meet(pool, place, 0, 2, word=word) for place, word in places]
        others = [meet(pool, place, 1, 2, word=word) for place, word in places]
        for future in [*leaders, *others]:
            future.result(timeout=30)


@pytest.mark.parametrize("name", ["127.0.0.1", "127.3.2.1", "localhost"])
def test_a_leader_on_a_loopback_address_listens_there_alone(name: str) -> None:
    assert own_loopback(name).startswith("127.")


@pytest.mark.parametrize("name", ["192.0.2.7", "[::1]", "no-such-host.invalid"])
def test_a_leader_in_a_network_or_without_a_name_yet_listens_everywhere(name: str) -> None:
    assert own_loopback(name) == ""
