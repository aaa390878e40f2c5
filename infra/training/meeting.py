"""Are all hosts there? Asked before JAX is, because JAX ends the process where one is missing.

`jax.distributed.initialize` aborts (SIGABRT) when its time is up: nobody could
say which host was missing. So the hosts first meet here, on the same address,
and leave it to JAX the moment they are complete.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

from prefect_tpu.infra import addresses
from prefect_tpu.infra.errors import CouldNotJoin

_GO = b"go"
_PAUSE = 0.1  # seconds between two tries to reach the leader
_HELLO = 5.0  # seconds in which a caller must have said who it is
_DIGITS = 20  # of a host's number, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What else to do than to look at logs: where hosts did not come, and where the leader's port is taken."""

    missing: str = "or raise join_timeout"
    taken: str = "Another process took it since the attempt was planned; the next attempt looks for another port."


OF_JOB = Advice()


def wait_for_hosts(address: str, word: str, host: int, hosts: int, timeout: float, advice: Advice = OF_JOB) -> None:
    """Return on every host once all are there.

    Args:
        address: the leader's `address:port`.
        word: what only hosts of this attempt say, so that a straggler of another one is not counted.
        host: this host's number; 0 leads.
        hosts: how many there are.
        timeout: seconds to wait at most.
        advice: for the messages.

    Raises:
        CouldNotJoin: some did not come in time; on the leader the message names them.
    """
    deadline = time.monotonic() + timeout
    if host == 0:
        with _server(address, word, advice.taken) as server:
            _gather(server, word, hosts, deadline, f"{timeout:g} s", advice.missing)
    elif not _is_called(addresses.split(address), f"{word} {host}\n".encode(), deadline):
        raise CouldNotJoin(
            f"Host {host} of {word} was not called by the leader at {address} within {timeout:g} s:"
            " it did not start, cannot be reached, or waited for others. Its log says which."
        )


@contextlib.contextmanager
def _server(address: str, word: str, advice: str) -> Iterator[socket.socket]:
    try:
        server = addresses.listen(address)
    except OSError as exc:
        raise CouldNotJoin(
            f"{word} could not begin: its leader cannot listen at port {address.rpartition(':')[2]} ({exc.strerror})."
            f" {advice}"
        ) from exc
    with server:
        yield server


def _gather(server: socket.socket, word: str, hosts: int, deadline: float, within: str, advice: str) -> None:
    """Accept until all have called, then let them go."""
    callers: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as stack:
        while missing := sorted(set(range(1, hosts)) - set(callers)):
            try:
                server.settimeout(_left(deadline))
                caller = stack.enter_context(server.accept()[0])
            except TimeoutError:
                raise CouldNotJoin(
                    f"{word} could not begin: of its {hosts} hosts {_listed(missing)} did not come within"
                    f" {within}. Look at the logs of these hosts, {advice}."
                ) from None
            if (host := _hello(caller, word, deadline)) is not None:
                callers[host] = caller  # a host that calls again was cut off before
        for caller in callers.values():
            with contextlib.suppress(OSError):  # gone since: JAX's own time limit is next
                caller.sendall(_GO)


def _hello(caller: socket.socket, word: str, deadline: float) -> int | None:
    """Which host calls; None for a stranger."""
    with contextlib.suppress(OSError, ValueError):
        caller.settimeout(min(_HELLO, _left(deadline)))
        said = caller.makefile("rb").readline(len(word.encode()) + _DIGITS).decode()
        theirs, _, number = said.rstrip("\n").rpartition(" ")
        if theirs == word:
            return int(number)
    caller.close()
    return None


def _is_called(leader_at: tuple[str, int], hello: bytes, deadline: float) -> bool:
    while time.monotonic() < deadline:
        with (
            contextlib.suppress(OSError),  # not there yet, not in the name service yet, or cut off
            socket.create_connection(leader_at, timeout=_left(deadline)) as leader,
        ):
            leader.sendall(hello)
            if leader.recv(len(_GO)) == _GO:
                return True
        time.sleep(min(_PAUSE, _left(deadline)))
    return False


def _left(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())


def _listed(hosts: list[int]) -> str:
    shown = ", ".join(map(str, hosts[:8]))
    return shown if len(hosts) <= 8 else f"{shown} and {len(hosts) - 8} more"
