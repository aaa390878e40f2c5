"""Where does a host listen for the others, so that they reach it and nobody else needs to?"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

_PAUSE = 0.1  # seconds in which whoever calls may be taken after all


def own_loopback(name: str) -> str:
    """The loopback address behind the leader's name, where the leader listens on nothing else; empty in a network.

    On one machine no port is opened to the network, and hosts that share a machine may each have a name and an
    address of their own there, with the same port. Whoever has no name yet in a cluster has no loopback address either.
    """
    try:
        found = socket.getaddrinfo(name.strip("[]"), None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return ""
    return next((str(place[0]) for *_, place in found if str(place[0]).startswith("127.")), "")


def split(address: str) -> tuple[str, int]:
    """Name and port of an `address:port`."""
    name, _, port = address.rpartition(":")
    return name.strip("[]"), int(port)


def callers(server: socket.socket) -> Iterator[socket.socket]:
    """Whoever calls, until the server is closed; where one cannot be taken just now, as too much is open, later."""
    while server.fileno() >= 0:
        try:
            connection, _ = server.accept()
        except OSError:
            time.sleep(_PAUSE)
            continue
        yield connection


def listen(address: str, backlog: int | None = None) -> socket.socket:
    """A server at the port of an `address:port` of this machine's own. Raises `OSError` where the port is taken."""
    name, port = split(address)
    loopback = own_loopback(name)
    if loopback or not socket.has_dualstack_ipv6():
        return socket.create_server((loopback, port), backlog=backlog)
    return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=backlog)
