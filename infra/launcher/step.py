"""What is to be done next for a job? Pure and level-triggered: all facts in, one action out.

Whoever drives a job gathers a `View`, asks `step`, performs the action and
begins again. Nothing is remembered between two steps that is not written down
but what offers have said, so a driver may be killed at any moment and another
one goes on: it asks them anew, and has the whole time to wait for a slice.
"""

from __future__ import annotations

from dataclasses import replace

from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher.actions import (
    Action,
    Attach,
    BackOff,
    Close,
    Finish,
    Provision,
    Rest,
    Submit,
    TellToLeave,
    Watch,
)
from prefect_tpu.infra.launcher.view import Live, View
from prefect_tpu.infra.policy import capacity, restarts
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.policy.failures import classify, is_decided
from prefect_tpu.infra.policy.offers import named, offer_of
from prefect_tpu.infra.state import HostPhase, JobState, Observation, Offer

SETTLE_SECONDS = 2.0  # after the first host's failure: time for the others to say what they saw
KILL_AFTER_GRACE_SECONDS = 5.0  # a runner ends its program after its grace; this long later it is ended itself


def step(view: View) -> Action:
    """The one action that is due now."""
    if view.live is not None:
        return _of_live_attempt(view, view.live)
    if view.ended and view.ended[-1].failure is None:
        return Finish(state=JobState.SUCCEEDED, failure=None)
    if view.is_stop_asked:
        return Finish(state=JobState.STOPPED, failure=failure(FailureKind.STOPPED, "The job was asked to stop."))
    return _after_end(view) if view.ended else _begin(view)


def _of_live_attempt(view: View, live: Live) -> Action:
    seen = live.observation
    if seen is None:
        lack = _lack(view, live)
        return Attach(number=live.number) if lack is None else Close(failure=lack)
    if seen.has_ended or _is_settled(live) or _is_beyond_grace(view, live) or _has_nothing_to_save(live, seen):
        return Close(failure=classify(seen) or _never_left(view, seen))
    if too_long := _waits_too_long(view, live, seen):
        return Close(failure=too_long)
    if view.is_stop_asked and live.stopping_for is None:
        return TellToLeave()
    if live.stopping_for is None and (dry := _is_dry(view, live, seen)):
        return Close(failure=dry)
    return Watch()


def _lack(view: View, live: Live) -> Failure | None:
    """The slice that a killed driver had planned this attempt for is not to be had again, or not in time."""
    if not live.is_lacking:
        return None
    name, refused = named(live.offer, view.offers), view.refused.get(live.offer)
    if refused is not None:
        return failure(FailureKind.NO_CAPACITY, f"{name} cannot be had: {refused}")
    if view.dry.get(live.offer, 0.0) > 0.0 and _is_another_to_be_had(view, live):
        return _without_capacity(view, live, view.lacking.get(live.offer, "none came"))
    return _waited_too_long(view)


def _waited_too_long(view: View) -> Failure | None:
    if view.waited <= view.job.provision_timeout:
        return None
    what = f"No slice within {view.job.provision_timeout:.0f} s (provision_timeout)."
    return capacity.none_of(view.offers, view.reasons, view.short_of, what)


def _waits_too_long(view: View, live: Live, seen: Observation) -> Failure | None:
    """It was sent, and its slice has not come: the next offer has its turn.

    One that is dry has no more time than all those before it left: each of them has had its turn.
    """
    if seen.waiting is None:
        return None
    row = capacity.in_a_row(view.ended) if seen.waiting.is_dry else ()
    waited = max(live.waiting_for or 0.0, view.now - row[0].started if row else 0.0)
    if waited <= view.job.provision_timeout:
        return None
    name, kind = named(live.offer, view.offers), seen.waiting.kind
    what = f"No slice of {name}" if kind in capacity.CAPACITY else f"The attempt on {name} did not begin"
    within = f"within {view.job.provision_timeout:.0f} s (provision_timeout)"
    return failure(kind, f"{what} {within}: {seen.waiting.reason.rstrip('.')}.")


def _is_dry(view: View, live: Live, seen: Observation) -> Failure | None:
    """It was sent, and there is no capacity for it, while another offer may have some."""
    if seen.waiting is None or not seen.waiting.is_dry or not _is_another_to_be_had(view, live):
        return None
    return _without_capacity(view, live, seen.waiting.reason)


def _without_capacity(view: View, live: Live, reason: str) -> Failure:
    message = f"{named(live.offer, view.offers)} has no capacity now: {reason.rstrip('.')}."
    return failure(FailureKind.NO_CAPACITY, message)


def _is_another_to_be_had(view: View, live: Live) -> bool:
    """Whether an offer is left that does not rest."""
    resting = capacity.resting(view.ended, view.now, view.rest)
    return any(
        offer != live.offer
        and offer not in view.refused
        and view.dry.get(offer, 0.0) <= 0.0
        and resting.get(offer, 0.0) <= 0.0
        for offer in view.offers
    )


def _never_left(view: View, seen: Observation) -> Failure | None:
    """Hosts that were told to leave and did not are ended from outside: never a success."""
    if seen.has_ended:
        return None
    kind = FailureKind.STOPPED if view.is_stop_asked else FailureKind.PREEMPTED
    if all(host.phase is HostPhase.PENDING for host in seen.hosts):
        return failure(kind, "The attempt was told to end before any of its hosts began.")
    return failure(kind, "The hosts were told to leave and did not within their grace, so they were ended.")


def _is_settled(live: Live) -> bool:
    """The attempt cannot go on, or a host failed and what the others may still say is a consequence.

    They had their time, or the cause is known. Hosts that were told to leave get their grace instead: they are saving.
    """
    if live.observation is None or live.stopping_for is not None:
        return False
    if live.observation.cause is not None:
        return not any(host.is_leaving for host in live.observation.hosts)
    if _is_leaving(live):
        return False
    return live.failing_for is not None and (live.failing_for >= SETTLE_SECONDS or is_decided(live.observation))


def _has_nothing_to_save(live: Live, seen: Observation) -> bool:
    """Told to leave, and nothing runs: each host has ended or never began."""
    return live.stopping_for is not None and all(host.phase is not HostPhase.RUNNING for host in seen.hosts)


def _is_leaving(live: Live) -> bool:
    seen = live.observation
    told = seen is not None and any(host.record and host.record.stop_reason for host in seen.hosts)
    return live.stopping_for is not None or told


def _is_beyond_grace(view: View, live: Live) -> bool:
    longest = view.job.grace + KILL_AFTER_GRACE_SECONDS
    return max(live.stopping_for or 0.0, live.failing_for or 0.0) > longest


def _after_end(view: View) -> Action:
    """The last attempt failed: give up, wait, or begin the next one."""
    cause = view.ended[-1].failure
    assert cause is not None, "a succeeded attempt is the job's end"
    if cause.kind is FailureKind.STOPPED:
        return Finish(state=JobState.STOPPED, failure=cause)
    if _in_vain(view) and _has_untried_offer(view):
        return _begin(view)  # at once, whatever the budget: nothing of the attempt's own went wrong
    decision = restarts.after(view.ended, budget_of(view.job))
    if isinstance(decision, restarts.GiveUp):
        return Finish(state=JobState.FAILED, failure=_of_all(view, cause))
    if _has_rested_offer(view):
        return _begin(view)
    left = decision.wait_seconds - view.since_last_end
    return BackOff(seconds=left, reason=decision.reason) if left > 0 else _begin(view)


def budget_of(job: SliceJob) -> restarts.Budget:
    """How much a job allows to go wrong before it is given up."""
    return restarts.Budget(
        max_preemptions=job.max_preemptions, max_failures=job.max_failures, provision_timeout=job.provision_timeout
    )


def _begin(view: View) -> Action:
    number = view.last_number + 1
    in_vain = _in_vain(view)
    chosen = _chosen(view, in_vain)
    is_good = view.held not in in_vain or view.held == chosen  # after one in vain, another may have its turn
    if view.held is not None and view.held not in view.refused and is_good:
        return Submit(number=number)
    if too_long := _waited_too_long(view):
        return Finish(state=JobState.FAILED, failure=too_long)
    if isinstance(chosen, Failure):
        return Finish(state=JobState.FAILED, failure=chosen)
    rest = view.dry.get(chosen, 0.0)
    return Rest(number=number, seconds=rest) if rest > 0.0 else Provision(number=number, offer=chosen)


def _chosen(view: View, in_vain: tuple[Offer, ...]) -> Offer | Failure:
    """One whose slice is on its way keeps its turn: another one that was asked now would leave it half made."""
    if view.awaited is not None and view.awaited not in view.refused:
        return view.awaited
    return capacity.choose(view.offers, view.refused, in_vain, view.barred, view.dry)


def _of_all(view: View, cause: Failure) -> Failure:
    """Where no offer gave a slice, the reasons of all of them; else the cause itself."""
    if cause.kind not in capacity.CAPACITY or len(view.reasons) < 2:
        return cause
    return replace(capacity.none_of(view.offers, view.reasons, cause.kind), advice=cause.advice)


def _has_untried_offer(view: View) -> bool:
    return any(offer not in view.refused for offer in set(view.offers) - set(_in_vain(view)))


def _has_rested_offer(view: View) -> bool:
    """Whether one of those tried in vain may be tried again at once."""
    rested = capacity.resting(view.ended, view.now, view.rest)
    return any(
        left <= 0.0 and offer not in view.refused and view.dry.get(offer, 0.0) <= 0.0
        for offer, left in rested.items()
        if offer in view.offers
    )


def _in_vain(view: View) -> tuple[Offer, ...]:
    """What the last attempts asked for without getting it, oldest first.

    Only an offer whose slice could not be had counts; one that was preempted, or whose pool lacked a host while
    another slice of it was free, is tried first again.
    """
    return tuple(offer_of(attempt) for attempt in capacity.in_vain(view.ended))
