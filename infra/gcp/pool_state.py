"""How is it with one pool that we want: is it there, is it ours, does it serve? Pure: what the API says → a state.

A pool that could not be made stays behind in ERROR, or goes and leaves nothing but a failed operation. Both are told
alike: as broken, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from prefect_tpu.infra.gcp.pool_errors import PoolFailure, Said, Trouble, trouble_of
from prefect_tpu.infra.gcp.pool_facts import CREATE, ClusterPools, Operation, Pool

# For how long a failed operation answers for a pool that is not there: then it may be tried again. That is shorter than
# an offer without capacity rests, so whoever comes back to one asks for a new pool; and longer than a look takes.
FRESH_SECONDS = 45.0


class Stage(StrEnum):
    """How far a pool is."""

    ABSENT = "absent"
    MAKING = "making"
    READY = "ready"
    BROKEN = "broken"
    LEAVING = "leaving"
    FOREIGN = "foreign"  # of our name, and somebody else's


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """One pool that is wanted.

    is_there: whether the API lists it.
    failure: of a broken pool, and of one that is leaving since it was broken.
    said: of one that is being made, how far it is; of a foreign one, whose it is.
    since: seconds since the epoch when it began to be made, where that is known.
    """

    name: str
    stage: Stage
    is_there: bool = True
    failure: PoolFailure | None = None
    said: str = ""
    since: float | None = None


_BROKEN = ("ERROR", "RUNNING_WITH_ERROR")


def state_of(name: str, owner: str, facts: ClusterPools, now: float, *, has_topology: bool) -> PoolState:
    """owner: the hash of whoever wants it. has_topology: it was asked for with one."""
    pool, made = facts.pools.get(name), facts.newest(name, CREATE)
    if pool is None:
        return _of_absent(name, made, now, has_topology)
    if pool.owner is None or pool.owner.owner != owner:
        whose = f"job {pool.owner.job!r} of another output" if pool.owner else "nobody that prefect-tpu knows"
        return PoolState(name=name, stage=Stage.FOREIGN, said=whose)
    if pool.is_leaving:
        failed = _failed(made.failure, has_topology) if made and made.failure else None
        return PoolState(name=name, stage=Stage.LEAVING, failure=failed)
    if pool.status in _BROKEN:
        return PoolState(name=name, stage=Stage.BROKEN, failure=_why(pool, made, has_topology))
    if pool.status == "RUNNING" or (pool.status == "RECONCILING" and pool.begins_empty):
        return PoolState(name=name, stage=Stage.READY)
    return PoolState(
        name=name, stage=Stage.MAKING, said=_how_far(pool, made), since=made.began if made else pool.owner.made
    )


def _of_absent(name: str, made: Operation | None, now: float, has_topology: bool) -> PoolState:
    if made is not None and not made.is_done:
        return PoolState(name=name, stage=Stage.MAKING, is_there=False, said=made.said, since=made.began)
    if made is not None and made.failure is not None and now - (made.ended or made.began) < FRESH_SECONDS:
        failed = _failed(made.failure, has_topology)
        return PoolState(name=name, stage=Stage.BROKEN, is_there=False, failure=failed)
    return PoolState(name=name, stage=Stage.ABSENT, is_there=False)


def _why(pool: Pool, made: Operation | None, has_topology: bool) -> PoolFailure:
    """The pool's own conditions first: they have codes that say one thing. Then the operation's error."""
    said = [*pool.troubles, *([made.failure] if made and made.failure else [])]
    said += [Said(text=pool.said)] if pool.said else []
    known = [_failed(one, has_topology) for one in said]
    decided = (one for one in known if one.trouble is not Trouble.NOT_NOW)
    nothing = PoolFailure(trouble=Trouble.NOT_NOW, said=f"it is in state {pool.status}, and Google does not say why")
    return next(decided, known[0] if known else nothing)


def _failed(said: Said, has_topology: bool) -> PoolFailure:
    found = trouble_of(said, has_topology=has_topology)
    words = said.text.strip() or said.condition or said.canonical
    # What ended badly is known to have ended: where nobody says how, it is tried again, and others have their turn.
    again = found in (Trouble.AWAY, Trouble.BUSY, Trouble.EXISTS)
    return PoolFailure(trouble=Trouble.NOT_NOW if again else found, said=words)


def _how_far(pool: Pool, made: Operation | None) -> str:
    if made is not None and not made.is_done and made.said:
        return made.said
    return "" if pool.status == "PROVISIONING" else pool.status.lower()
