"""What is due next so that an attempt has its node pools? Pure: facts in, one decision out.

Nothing is remembered between two questions: whoever asks again, from whichever process, sees what is there and goes on.
A cluster takes one change at a time, so a decision is one change at most, and while the cluster is busy it is to wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prefect_tpu.infra.gcp.google_permissions import MAKING_POOLS, REACHING
from prefect_tpu.infra.gcp.pool_errors import PoolFailure, Trouble
from prefect_tpu.infra.gcp.pool_facts import CREATE, DELETE, ClusterPools, Operation
from prefect_tpu.infra.gcp.pool_names import Try
from prefect_tpu.infra.gcp.pool_request import PoolWish, how_to_make_policy
from prefect_tpu.infra.gcp.pool_state import PoolState, Stage, state_of
from prefect_tpu.infra.gcp.quota_table import PAGE

_DOING = {CREATE: "making", DELETE: "deleting", "SET_NODE_POOL_SIZE": "resizing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Not yet. is_dry: Google has none of it now."""

    reason: str
    is_dry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Never. is_barred: no slice is lacking, something is in the way of the job itself."""

    reason: str
    is_barred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """All pools serve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Ask for this pool."""

    wish: PoolWish


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Give a pool of ours the nodes that it should have."""

    wish: PoolWish


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete a pool of ours, and give `answer` to whoever asked."""

    name: str
    answer: Wait | Refuse


Answer = Wait | Refuse | Ready
Decision = Answer | Create | Resize | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The pools of one try, in order."""

    tried: Try
    wishes: tuple[PoolWish, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(wish.name for wish in self.wishes)


def decide(wanted: Wanted, facts: ClusterPools, now: float) -> Decision:
    """The one thing that is due. `now`: seconds since the epoch."""
    owner = wanted.tried.owner
    states = [state_of(wish.name, owner, facts, now, has_topology=wish.is_joined) for wish in wanted.wishes]
    if foreign := _first(states, Stage.FOREIGN):
        return Refuse(
            reason=f"node pool {foreign.name!r} is there and belongs to {foreign.said}: it is left alone. Delete it, or"
            " give the job another name."
        )
    if broken := _first(states, Stage.BROKEN):
        return _of_broken(broken, wanted.wishes[0], facts)
    stray = next(strays(wanted.tried, wanted.names, facts), None)
    if stray is not None and facts.running is None:
        return Delete(name=stray, answer=Wait(reason=f"node pool {stray!r} of an earlier try is given back first"))
    return _of_whole(wanted, states, facts, now)


def strays(tried: Try, wanted: frozenset[str], facts: ClusterPools) -> Iterator[str]:
    """Pools that this job had for earlier attempts, or by another offer, and nobody deletes yet.

    Never those of a later attempt: whoever asks for an earlier one has slept too long.
    """
    for name, pool in sorted(facts.pools.items()):
        if pool.is_of(tried.owner, up_to=tried.attempt) and name not in wanted and not pool.is_leaving:
            yield name


def answer_to(failure: PoolFailure, name: str, wish: PoolWish) -> Wait | Refuse:
    """What a failure means for whoever wants the pool."""
    said = failure.said.rstrip(".")
    if not failure.trouble.is_final:
        why = _NOT_YET[failure.trouble].format(name=name, zone=wish.zone)
        return Wait(reason=f"{why}: {said}", is_dry=failure.trouble.is_dry)
    advice = " ".join(filter(None, (_ADVICE.get(failure.trouble, ""), _about_policy(failure, wish))))
    is_barred = failure.trouble is Trouble.PERMISSION
    return Refuse(reason=f"node pool {name!r} cannot be made: {said}. {advice}".strip(), is_barred=is_barred)


_NOT_YET = {
    Trouble.STOCKOUT: "Google has no such machines in {zone} now",
    Trouble.QUOTA: "the quota for such machines in {zone} is in use",
    Trouble.NOT_NOW: "node pool {name!r} could not be made",
    Trouble.BUSY: "node pool {name!r} waits for its turn",
    Trouble.EXISTS: "node pool {name!r} was there already, and is looked at again",
    Trouble.AWAY: "it is not known whether node pool {name!r} is being made",
}
_ADVICE = {
    Trouble.NO_QUOTA: f"Ask Google for quota: {PAGE}",
    Trouble.PERMISSION: (
        f"Whoever drives the job needs {', '.join((*REACHING.permissions, *MAKING_POOLS.permissions))} in the project,"
        " and the right to let nodes run as their service account (roles/iam.serviceAccountUser)."
    ),
    Trouble.TOPOLOGY: "`prefect-tpu accelerators` lists the slices that there are.",
    Trouble.INVALID: "Change what it names.",
}


def _about_policy(failure: PoolFailure, wish: PoolWish) -> str:
    """A policy that is missing is told in other words each time."""
    may_be_it = failure.trouble in (Trouble.TOPOLOGY, Trouble.INVALID, Trouble.GONE)
    return how_to_make_policy(wish.shape, wish.zone) if may_be_it else ""


def _first(states: Sequence[PoolState], stage: Stage) -> PoolState | None:
    return next((state for state in states if state.stage is stage), None)


def _of_broken(broken: PoolState, wish: PoolWish, facts: ClusterPools) -> Decision:
    """It goes before it is made again; the other pools of the try are kept, for their slices are hard to come by."""
    assert broken.failure is not None, "a broken pool has its reason"
    answer = answer_to(broken.failure, broken.name, wish)
    return Delete(name=broken.name, answer=answer) if broken.is_there and facts.running is None else answer


def _of_whole(wanted: Wanted, states: Sequence[PoolState], facts: ClusterPools, now: float) -> Decision:
    """None of them is broken or somebody else's."""
    by_name = {wish.name: wish for wish in wanted.wishes}
    if leaving := _first(states, Stage.LEAVING):
        reason = f"node pool {leaving.name!r} of an earlier try is being deleted"
        if (failed := leaving.failure) is None:
            return Wait(reason=reason)
        return Wait(reason=f"{reason}: {failed.said}", is_dry=failed.trouble.is_dry)
    absent, busy = _first(states, Stage.ABSENT), facts.running
    if absent is not None and busy is None:
        return Create(wish=by_name[absent.name])
    if making := _first(states, Stage.MAKING):
        return Wait(reason=_in_the_making(making, states, now))
    if absent is not None and busy is not None:
        return Wait(reason=f"the cluster takes one change at a time, and is {_doing(busy, now)}")
    wrong = next((wish for wish in wanted.wishes if _has_wrong_size(wish, facts)), None)
    if wrong is None:
        return Ready()
    if busy is not None:
        return Wait(reason=f"node pool {wrong.name!r} gets other nodes next: the cluster is {_doing(busy, now)}")
    return Resize(wish=wrong)


def _has_wrong_size(wish: PoolWish, facts: ClusterPools) -> bool:
    """A pool of separate hosts may have been made for another number of slices; joined ones are whole or not there."""
    return not wish.is_joined and not wish.begins_empty and facts.pools[wish.name].nodes != wish.nodes


def _in_the_making(making: PoolState, states: Sequence[PoolState], now: float) -> str:
    which = f" ({states.index(making) + 1} of {len(states)})" if len(states) > 1 else ""
    said = f": {making.said}" if making.said else ""
    return f"node pool {making.name!r}{which} is being made{_for(making.since, now)}{said}"


def _doing(operation: Operation, now: float) -> str:
    doing = _DOING.get(operation.kind, f"busy ({operation.kind.lower().replace('_', ' ')})")
    what = f" node pool {operation.pool!r}" if operation.pool else ""
    return f"{doing}{what}{_for(operation.began, now)}"


def _for(since: float | None, now: float) -> str:
    """By the minute: these words are written down each time they change."""
    minutes = int((now - since) // 60) if since else 0  # of some operations Google does not tell when they began
    return f" for {minutes} min" if minutes > 0 else ""
