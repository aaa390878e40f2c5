"""A port where the hosts of an attempt can meet."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from prefect_tpu.infra.backends.local_ports import FIRST_PORT, LAST_PORT, TRIES, free_port
from prefect_tpu.infra.errors import PlatformError


def listening(stack: ExitStack, port: int) -> None:
    server = stack.enter_context(socket.socket())
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    server.listen()


def test_the_seed_says_where_the_search_begins() -> None:
    ports = {free_port(f"/out/job-{number}/1/0") for number in range(20)}
    assert len(ports) > 15
    assert all(FIRST_PORT <= port < LAST_PORT for port in ports)
    assert free_port("/out/a/1/0") == free_port("/out/a/1/0")


def test_a_port_where_somebody_listens_is_passed_over() -> None:
    first = free_port("seed")
    with ExitStack() as stack:
        listening(stack, first)
        second = free_port("seed")
        assert second != first
        listening(stack, second)
        assert free_port("seed") not in (first, second)
    assert free_port("seed") == first


def test_where_none_is_free_it_says_where_it_looked() -> None:
    first = free_port("crowd")
    with ExitStack() as stack:
        for offset in range(TRIES):
            port = FIRST_PORT + (first - FIRST_PORT + offset) % (LAST_PORT - FIRST_PORT)
            try:
                listening(stack, port)
            except OSError:
                continue  # somebody else listens there, which serves as well
        try:
            found = free_port("crowd")
        except PlatformError as exc:
            assert f"No free port among {TRIES} tried" in str(exc)
        else:
            pytest.fail(f"port {found} is not one that was taken")
