"""How do the hosts of a program come to one mind? The leader says it, or all meet."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Protocol

from prefect_tpu.infra.training import jax_peers

# Each of these is a collective: every host calls it, in the same order, and a
# lost peer makes it raise.


class Peers(Protocol):
    """What a framework must be able to do for the hosts; asked only where there are several, but for `place`."""

    def place(self) -> tuple[int, int]: ...

    def from_leader(self, values: Sequence[int], /) -> tuple[int, ...]: ...

    def from_all(self, text: str, /) -> list[str]: ...

    def meet(self, place: str, /) -> None: ...


_peers: Peers = jax_peers


def speak_over(peers: Peers) -> None:
    """From now on the hosts speak to each other over this framework instead of JAX."""
    global _peers
    _peers = peers


def is_over(peers: Peers) -> bool:
    """Whether they speak over this framework."""
    return _peers is peers


def place() -> tuple[int, int]:
    """(this process's number, how many there are)"""
    return _peers.place()


def peers() -> int:
    """How many processes run this program together."""
    return place()[1]


def is_leader() -> bool:
    return place()[0] == 0


def from_leader(values: Sequence[int]) -> tuple[int, ...]:
    """The leader's numbers, on every host: whole ones of 64 bits.

    Raises `TypeError` for what is none, rather than to send what is left of it.
    """
    whole = tuple(map(operator.index, values))
    return whole if peers() == 1 else _peers.from_leader(whole)


def from_all(text: str) -> list[str]:
    """Every host's text, by host."""
    return [text] if peers() == 1 else _peers.from_all(text)


def meet(place: str) -> None:
    """Go on only when every host is here."""
    if peers() > 1:
        _peers.meet(place)
