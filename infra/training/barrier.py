"""Is everybody here? Asked with a limit, and answered with the names of those who are not."""

from __future__ import annotations

import time
from collections import Counter

from prefect_tpu.infra.errors import HostsMissing, UsageError
from prefect_tpu.infra.training import trail
from prefect_tpu.infra.training.board import Board, board, hear

TIMEOUT = 300.0
SHORTEST, LONGEST = 0.005, 0.25  # seconds between two looks of the leader
DEAF = 5.0  # seconds in which a waiting host hears no signal

_passed: Counter[str] = Counter()


def barrier(name: str, timeout: float = TIMEOUT) -> None:
    """Go on only when every host is here; on one host alone there is nothing to wait for.

    It needs no chips: only that hosts have met. Call it on every host, as often on each.

    Args:
        name: which barrier it is; hosts that wait at different ones wait in vain.
        timeout: seconds to wait at most.

    Raises:
        HostsMissing: some host did not come in time; the message says which, `hosts` too.
        UsageError: the name or the limit is none, or the hosts have not met: call `join()` first.
    """
    if not name or not timeout > 0:
        raise UsageError(f"barrier({name!r}, timeout={timeout}): give it a name, and a number of seconds above 0.")
    told = board("barrier()")
    if told is None:
        return
    _passed[name] += 1
    folder = f"barrier/{name}/{_passed[name]}"
    told.put(f"{folder}/{told.host}", "")
    missing = _gathered(told, folder, timeout) if told.host == 0 else _heard(told, folder, timeout)
    if told.ends_with_leader:
        hear(told, folder)  # the barrier may be the last that the leader does
    if missing:
        raise HostsMissing(name, timeout, missing, _where(told, missing))


def _gathered(told: Board, folder: str, timeout: float) -> tuple[int, ...]:
    """On the leader: who is missing in the end. The others hear it."""
    until, pause = time.monotonic() + timeout, SHORTEST
    while (missing := _missing(told, folder)) and time.monotonic() < until:
        time.sleep(min(pause, max(0.0, until - time.monotonic())))
        pause = min(LONGEST, 1.5 * pause)
    told.put(f"{folder}-over", " ".join(map(str, missing)))
    return missing


def _heard(told: Board, folder: str, timeout: float) -> tuple[int, ...]:
    """On another host: who is missing by the leader's word, or, where that does not come, by what is there now."""
    until = time.monotonic() + timeout
    while (left := until - time.monotonic()) > 0:
        if (word := told.wait(f"{folder}-over", min(left, DEAF))) is not None:
            return tuple(map(int, word.split()))
    return _missing(told, folder)


def _missing(told: Board, folder: str) -> tuple[int, ...]:
    there = {int(host) for host in told.below(folder)}
    return tuple(sorted(set(range(told.hosts)) - there))


def _where(told: Board, missing: tuple[int, ...]) -> str:
    """Where a missing host was last, where the program lets hosts agree."""
    text = told.get(f"agree/{missing[0]}")
    marks = trail.read(text) if text else []
    return f" Host {missing[0]} was last at {trail.at(marks[-1].step)}." if marks else ""
