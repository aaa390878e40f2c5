"""Where do hosts leave word for each other while none of them may wait? Where JAX, or PyTorch, met.

JAX's coordination service has been open since the hosts met, asks for no further port or key, and answers a thread
while the program waits in a collective. JAX says nothing of it in public, so its names are used here alone, as JAX 0.10
and 0.12 have them. PyTorch's store is like it.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any, Protocol

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import torch_board
from prefect_tpu.infra.training.context import context

_ROOT = "prefect_tpu"
HEARD_WITHIN = 1.5  # seconds that the leader waits for the others at its end: they look several times in them
LAST_WORDS = 1.0  # seconds for a host that has heard to end by itself: JAX ends it when the leader is gone
DEAF = 1.0  # seconds in which a waiting host hears no signal


class Board(Protocol):
    """What hosts need of it; `host` and `hosts` say whose it is.

    ends_with_leader: whether it goes at once when the leader's program returns, and not when all have.
    """

    host: int
    hosts: int
    ends_with_leader: bool

    def put(self, name: str, text: str) -> None:
        """Leave or replace a word."""
        ...

    def get(self, name: str) -> str | None:
        """The word, where somebody has left it."""
        ...

    def below(self, folder: str) -> dict[str, str]:
        """All words of a folder, by what follows its name."""
        ...

    def wait(self, name: str, seconds: float) -> str | None:
        """The word, once somebody leaves it; None where nobody did in time."""
        ...


class JaxBoard:
    """See `Board`."""

    ends_with_leader = False  # JAX waits for the others at the end

    def __init__(self, client: Any, host: int, hosts: int) -> None:
        self._client, self.host, self.hosts = client, host, hosts

    def put(self, name: str, text: str) -> None:
        self._client.key_value_set(f"{_ROOT}/{name}", text, allow_overwrite=True)

    def get(self, name: str) -> str | None:
        try:
            return str(self._client.key_value_try_get(f"{_ROOT}/{name}"))
        except Exception as exc:
            if "NOT_FOUND" in str(exc):  # JAX has no code for it, and no other way to say it
                return None
            raise

    def below(self, folder: str) -> dict[str, str]:
        begin = f"{_ROOT}/{folder}/"
        return {name.removeprefix(begin): text for name, text in self._client.key_value_dir_get(begin)}

    def wait(self, name: str, seconds: float) -> str | None:
        until = time.monotonic() + seconds
        while (word := self._wait(name, min(until - time.monotonic(), DEAF))) is None:
            if time.monotonic() >= until:
                break
        return word

    def _wait(self, name: str, seconds: float) -> str | None:
        try:
            return str(self._client.blocking_key_value_get(f"{_ROOT}/{name}", max(1, int(seconds * 1000))))
        except Exception as exc:
            if "DEADLINE_EXCEEDED" in str(exc):
                return None
            raise


def hear(told: Board, word: str, within: float = HEARD_WITHIN, hosts: int | None = None) -> None:
    """Say that this host has heard a word, before it ends, and wait until all have: whoever ends takes those along who
    wait for it in a collective. The leader ends last: without it nobody hears anything.

    Args:
        within: seconds that the leader waits for the others.
        hosts: how many can hear it; None for all.
    """
    gather(told, word, within, hosts)
    if told.host != 0:
        with contextlib.suppress(Exception):  # without a leader there is nobody to wait for
            told.wait(f"{word}-known", within + LAST_WORDS)
    elif hosts is None or hosts > 1:
        told.put(f"{word}-known", "")
        time.sleep(LAST_WORDS)


def gather(told: Board, word: str, within: float = HEARD_WITHIN, hosts: int | None = None) -> None:
    """The same of a word after which nobody need end: the leader goes on at once when all have heard it."""
    told.put(f"{word}-heard/{told.host}", "")
    hosts = told.hosts if hosts is None else hosts
    until, pause = time.monotonic() + within, HEARD_WITHIN / 500
    while told.host == 0 and time.monotonic() < until and len(told.below(f"{word}-heard")) < hosts:
        time.sleep(pause)
        pause = min(HEARD_WITHIN / 50, 1.5 * pause)


def board(caller: str) -> Board | None:
    """The board of this program; None where it runs on one host alone.

    Raises:
        UsageError: there are other hosts, and nobody has met them.
    """
    here = context()
    if here is not None and here.is_flow:
        raise UsageError(
            f"prefect_tpu.{caller} was called in the flow itself, which is none of the {here.plan.hosts} hosts: call it"
            " in a function that prefect_tpu.every_host(function)(...) runs on each of them."
        )
    if here is not None and here.plan.hosts > 1 and not (_is_open() or torch_board.is_open()):
        raise UsageError(
            f"prefect_tpu.{caller} speaks with the other {here.plan.hosts - 1} hosts through what they met over, and"
            " they have not met: call prefect_tpu.join() first, or join('torch') in a program of PyTorch."
        )
    return open_board()


def open_board() -> Board | None:
    """The same, and None also where neither JAX nor PyTorch has met the other hosts."""
    if not _is_open():
        return torch_board.opened() if torch_board.is_open() else None
    from jax._src import distributed

    state = distributed.global_state
    return None if state.num_processes == 1 else JaxBoard(state.client, state.process_id, state.num_processes)


def _is_open() -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and bool(jax.distributed.is_initialized())
