"""Is everybody here? Asked with a limit, and answered with the names of those who are not."""

from __future__ import annotations

import time
from collections import Counter
from urllib.parse import quote

from prefect_tpu.infra.errors import HostsMissing, UsageError
from prefect_tpu.infra.training import trail
from prefect_tpu.infra.training.board import Board, board, gather, hear

TIMEOUT = 300.0
SHORTEST, LONGEST = 0.005, 0.25  # seconds between two looks of the leader

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
    if not isinstance(name, str) or not name or not isinstance(timeout, int | float) or not timeout > 0:
        raise UsageError(f"barrier({name!r}, timeout={timeout}): give it a name, and a number of seconds above 0.")
    told = board("barrier()")
    if told is None:
        return
    _passed[name] += 1
    if missing := missing_at(told, folder_of(name, _passed[name]), timeout):
        raise HostsMissing(name, timeout, missing, _where(told, missing))


def folder_of(name: str, number: int) -> str:
    """Where hosts meet that come to a barrier for the `number`th time; no other one's lies in it."""
    return f"barrier/{quote(name, safe='')}/{number}"


def missing_at(told: Board, folder: str, timeout: float) -> tuple[int, ...]:
    """Who has not come to this folder of the board in time; all who have hear it before the leader does."""
    told.put(f"{folder}/{told.host}", "")
    missing = _gathered(told, folder, timeout) if told.host == 0 else _heard(told, folder, timeout)
    if missing:
        hear(told, folder, hosts=told.hosts - len(missing))
    elif told.ends_with_leader:
        gather(told, folder)  # the barrier may be the last that the leader does
    return missing


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
    word = told.wait(f"{folder}-over", timeout)
    return _missing(told, folder) if word is None else tuple(map(int, word.split()))


def _missing(told: Board, folder: str) -> tuple[int, ...]:
    there = {int(host) for host in told.below(folder)}
    return tuple(sorted(set(range(told.hosts)) - there))


def _where(told: Board, missing: tuple[int, ...]) -> str:
    """Where a missing host was last, where the program lets hosts agree."""
    text = told.get(f"agree/{missing[0]}")
    marks = trail.read(text) if text else []
    return f" Host {missing[0]} was last at {trail.at(marks[-1].step)}." if marks else ""
