"""Do all hosts of an attempt stand still? Asked by each runner of its own program first.

A host is watched from the moment its program joins or reports: a program that
does neither gives no sign by which it could be missed. One silent host proves
nothing, because in many programs only the leader reports. So a silent host says
so in a file, looks for such files of the others, and ends its program only when
nobody is left who makes steps, compiles or saves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import Activity, Scratch, Silence
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.host import stacks
from prefect_tpu.infra.host.stacks import Stacks
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.scratch import read_json, read_progress, signs_of_life
from prefect_tpu.infra.storage import Storage

LONGER = 10  # times the limit while a host compiles or saves: every wait has a bound
LOOK_SECONDS = 1.0
SOON_SECONDS = 0.3  # until asked processes have answered, and between looks while all are silent
REFRESHED = 20  # times in the length of a silence; and so often a quiet host looks for the others in its limit


def is_stalled(own: Silence, others: Sequence[Silence | None], limit: float) -> bool:
    """Whether every host that counts is silent past the limit, knows it of the others, and has kept its stacks.

    Args:
        own: this host's silence.
        others: of each other host that is watched and has not ended; None for one that makes steps.
        limit: seconds of silence; `LONGER` times as many while one of them compiles or saves.
    """
    if None in others:
        return False
    silences = [own, *(other for other in others if other is not None)]
    if any(silence.activity != Activity.UNKNOWN for silence in silences):
        limit *= LONGER
    return all(silence.is_agreed and silence.silent_for >= limit for silence in silences)


class Peers:
    """The other hosts of the attempt, seen through storage."""

    def __init__(self, storage: Storage, plan: HostPlan, host: int) -> None:
        self._storage, self._attempt = storage, plan.attempt
        self._others = [other for other in range(plan.hosts) if other != host]

    def silences(self) -> list[Silence | None]:
        """Of each that is watched and has not ended, up to the first that is not silent: None stands for it."""
        found: list[Silence | None] = []
        try:
            for other in filter(self._counts, self._others):
                found.append(self._silence(other))
                if found[-1] is None:
                    break
        except PlatformError:  # of a host that cannot be seen nobody can say that it is silent
            found.append(None)
        return found

    def _counts(self, other: int) -> bool:
        """A host whose program has joined or reported has an object in the ledger; one that has ended has a record."""
        has_begun = self._storage.get(layout.host_ledger(self._attempt, other, 0)) is not None
        return has_begun and self._storage.get(layout.record(self._attempt, other)) is None

    def _silence(self, other: int) -> Silence | None:
        raw = self._storage.get(layout.silence(self._attempt, other))
        try:
            return None if raw is None else Silence.from_json(raw)
        except contract.ContractError:
            return None


class StallWatch:
    """One host's part: hears the program's signs of life, and tells when all hosts have stood still for too long.

    `begun` is called at the first sign, so that the others learn that this host counts.
    """

    def __init__(self, plan: HostPlan, host: int, storage: Storage, group: int, begun: Callable[[], None]) -> None:
        self._plan, self._host, self._storage = plan, host, storage
        self._limit, self._begun = plan.stall_timeout, begun
        self._peers = Peers(storage, plan, host)
        self._scratch = plan.scratch_folder(host)
        self._stacks = Stacks(self._scratch, group)
        self._sign: tuple[object, ...] | None = None
        self._since = self._next_look = self._look_around_at = self._refresh_at = 0.0
        self._asked: bool | None = None  # for its stacks: whether all were silent then
        self.silence: Silence | None = None  # as it was published
        self.dump = ""

    def is_stalled(self, now: float) -> bool:
        """`now`: seconds since the runner's start. Looks once a second; any other call costs nothing."""
        if self._limit is None or now < self._next_look:
            return False
        self._next_look = now + LOOK_SECONDS
        sign = self._newest_sign()
        if sign != self._sign:
            self._hear(sign, now)
        elif sign is not None and now - self._since >= self._limit and now >= self._look_around_at:
            return self._is_agreed(now, self._limit)
        return False

    def _newest_sign(self) -> tuple[object, ...] | None:
        """Whatever the program's reports, saves and events change; None before the first, and between regions."""
        newest = signs_of_life(self._scratch)
        return newest if self._plan.program.kind != "flow" else self._sign_of_a_region(newest)

    def _sign_of_a_region(self, newest: tuple[object, ...] | None) -> tuple[object, ...] | None:
        """A flow makes no steps of its own: it is watched from the first sign that a region gives to its end."""
        region = read_json(self._scratch / Scratch.REGION)
        if region is None:
            return None
        self._stacks = Stacks(self._scratch, int(region["group"]))
        before = region["before"] and tuple(region["before"])
        return None if newest == before else newest

    def _hear(self, sign: tuple[object, ...] | None, now: float) -> None:
        if self._sign is None and sign is not None:
            self._begun()
        self._sign, self._since, self._asked, self._look_around_at = sign, now, None, 0.0
        self.end_silence()

    def end_silence(self) -> None:
        """The program has given a sign of life, or has ended by itself."""
        if self.silence is not None:
            self._storage.delete(layout.silence(self._plan.attempt, self._host))
            self.silence = None

    def _is_agreed(self, now: float, limit: float) -> bool:
        """Ask the program where it stands when that may decide something, publish it, and decide."""
        others = self._peers.silences()
        are_all_silent = None not in others
        self._next_look = now + (SOON_SECONDS if are_all_silent else LOOK_SECONDS)
        if self._asked is None and self._is_worth_asking(are_all_silent, now):
            self._asked, self._next_look = are_all_silent, now + SOON_SECONDS
            self._stacks.ask()
            return False
        if self._asked is not None:
            self._publish(now, is_agreed=self._asked and are_all_silent)
        if not are_all_silent:  # where only the leader reports, the others are quiet for as long as the job runs
            self._look_around_at = now + limit / REFRESHED
        return self.silence is not None and is_stalled(self.silence, others, limit)

    def _is_worth_asking(self, are_all_silent: bool, now: float) -> bool:
        """While others make steps once is enough: a program must not be disturbed for being quiet."""
        if self.silence is None or self.silence.is_agreed != are_all_silent:
            return True
        return are_all_silent and now >= self._refresh_at

    def _publish(self, now: float, *, is_agreed: bool) -> None:
        self._asked = None
        self.dump, progress = self._stacks.read(), read_progress(self._scratch)
        self.silence = Silence(
            silent_for=round(now - self._since, 3),
            activity=stacks.activity(self.dump).value,
            where=stacks.where(self.dump),
            is_waiting=stacks.is_waiting(self.dump),
            step=progress.step,
            reported_after=progress.reported_after,
            is_agreed=is_agreed,
        )
        self._refresh_at = now + max(LOOK_SECONDS, self.silence.silent_for / REFRESHED)
        if self.dump:
            self._write(layout.stacks(self._plan.attempt, self._host), self.dump.encode())
        self._write(layout.silence(self._plan.attempt, self._host), contract.write_json(asdict(self.silence)))

    def _write(self, name: str, data: bytes) -> None:
        try:
            self._storage.put(name, data)
        except PlatformError as exc:  # a full disk must not end the program; it is written again soon
            sys.stderr.write(f"prefect-tpu: {exc}\n")
