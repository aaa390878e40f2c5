"""All facts of a job in, one action out: a table, and a machine that plays a random backend against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from prefect_tpu.infra.contract import ExitCode, HostRecord, StopReason
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary, Program, SliceJob
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
from prefect_tpu.infra.launcher.step import KILL_AFTER_GRACE_SECONDS, SETTLE_SECONDS, step
from prefect_tpu.infra.launcher.view import Live, View
from prefect_tpu.infra.policy.capacity import CAPACITY
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.state import Cause, HostObservation, HostPhase, JobState, Observation, Offer, Waiting

JOB = SliceJob(
    name="digits",
    program=Program(kind="module", target="m:f"),
    accelerators=("v6e-16", "v5e-16"),
    max_preemptions=2,
    max_failures=1,
    grace=3.0,
    provision_timeout=60.0,
)
A, B = (Offer(accelerator=name) for name in JOB.accelerators)
LONG = JOB.provision_timeout
BEYOND_GRACE = JOB.grace + KILL_AFTER_GRACE_SECONDS + 0.1
RUNNING = HostObservation(host=0, phase=HostPhase.RUNNING, joined=True)
GONE = HostObservation(host=1, phase=HostPhase.ENDED, joined=True, signal=9)
PENDING = HostObservation(host=0, phase=HostPhase.PENDING)


def left(host: int, code: int, **changes: Any) -> HostObservation:
    record = HostRecord(**{"attempt": 1, "host": host, "exit_code": code, "joined_after": 1.0, **changes})
    return HostObservation(host=host, phase=HostPhase.ENDED, exit_code=code, joined=True, record=record)


DONE = left(0, ExitCode.DONE)
TOLD = left(1, ExitCode.PREEMPTED, stop_reason="notice")
RAISED = left(1, ExitCode.PROGRAM_RAISED)


NO_IMAGE = Cause(kind=FailureKind.IMAGE, message="no such image")


def live(*hosts: HostObservation, cause: Cause | None = None, **changes: Any) -> Live:
    seen = Observation(attempt=4, hosts=hosts, cause=cause) if hosts else None
    return Live(number=4, offer=A, observation=seen, **changes)


def waiting(seconds: float, *, is_dry: bool = False, **changes: Any) -> Live:
    """Sent so long ago, and without a slice."""
    waits = Waiting(reason="16 chips in use.", is_dry=is_dry)
    seen = Observation(attempt=4, hosts=(PENDING, PENDING), waiting=waits)
    return Live(number=4, offer=A, observation=seen, waiting_for=seconds, **changes)


def ended(kind: FailureKind | None, number: int = 3, saved: int | None = None) -> AttemptSummary:
    return AttemptSummary(
        number=number, accelerator="v6e-16", started=0.0, ended=1.0, outcome="x", saved_step=saved,
        failure=kind and failure(kind, "it happened"),
    )  # fmt: skip


def degraded(pool: str) -> AttemptSummary:
    """Its leader was placed into a pool that lacks a host."""
    return replace(ended(FailureKind.UNSCHEDULABLE), places=(pool,))


def elsewhere(kind: FailureKind, at: float = 1.0) -> AttemptSummary:
    """On the second offer, ended so many seconds after the first began."""
    return replace(ended(kind, number=4), accelerator="v5e-16", ended=at)


def view(**changes: Any) -> View:
    return View(**{"job": JOB, "offers": (A, B), **changes})


LOST, ELSEWHERE = ended(FailureKind.HOST_LOST), elsewhere(FailureKind.NO_CAPACITY)
TABLE: dict[str, tuple[View, type[Action], dict[str, object]]] = {
    # nothing yet
    "a new job": (view(), Provision, {"number": 1, "offer": A}),
    "a slice is held": (view(held=A), Submit, {"number": 1}),
    "a slice is held whose like is gone": (view(held=A, refused={A: "no"}), Provision, {"offer": B}),
    "the first offer was refused": (view(refused={A: "no"}), Provision, {"offer": B}),
    "all were refused": (view(refused={A: "no", B: "no"}), Finish, {"state": JobState.FAILED}),
    "the first offer is dry": (view(dry={A: 50.0}, lacking={A: "none"}), Provision, {"number": 1, "offer": B}),
    "the first is dry, the second refused": (
        view(dry={A: 50.0}, refused={B: "no"}), Rest, {"number": 1, "seconds": 50.0}),
    "all are dry": (view(dry={A: 50.0, B: 55.0}), Rest, {"seconds": 50.0}),
    "all were dry, and one is awake": (view(dry={A: 0.0, B: 5.0}), Provision, {"offer": A}),
    "all are dry, for too long": (view(dry={A: 50.0, B: 5.0}, waited=LONG + 1), Finish, {"state": JobState.FAILED}),
    "all are dry, stop asked": (view(dry={A: 50.0, B: 5.0}, is_stop_asked=True), Finish, {"state": JobState.STOPPED}),
    "a slice is on its way, and another offer has rested": (
        view(ended=(ended(FailureKind.NO_CAPACITY),), since_last_end=LONG, awaited=A, dry={B: -1.0}),
        Provision, {"offer": A}),
    "what was on its way is refused": (view(awaited=B, refused={B: "no"}), Provision, {"offer": A}),
    "a slice is held whose like is dry now": (view(held=A, dry={A: 50.0}), Submit, {"number": 1}),
    "stopped before it began": (view(is_stop_asked=True, held=A), Finish, {"state": JobState.STOPPED}),
    "numbers go on in a later round": (view(last_number=7, held=A), Submit, {"number": 8}),
    # an attempt lives
    "not looked at": (view(live=live()), Attach, {"number": 4}),
    "its slice is awaited": (view(live=live(is_lacking=True), waited=LONG), Attach, {"number": 4}),
    "its slice did not come": (view(live=live(is_lacking=True), waited=LONG + 1), Close, {}),
    "its slice is refused": (view(live=live(is_lacking=True), refused={A: "too large"}), Close, {}),
    "another slice is refused": (view(live=live(is_lacking=True), refused={B: "too large"}), Attach, {}),
    "somebody has its slice": (view(live=live(), waited=LONG + 1, refused={A: "too large"}), Attach, {}),
    "no slice came": (view(waited=LONG + 1), Finish, {"state": JobState.FAILED}),
    "its slice is dry": (
        view(live=live(is_lacking=True), dry={A: 50.0}, lacking={A: "none"}), Close, {}),
    "its slice is dry, as all are": (view(live=live(is_lacking=True), dry={A: 50.0, B: 5.0}), Attach, {}),
    "not looked at, stop asked": (view(live=live(), is_stop_asked=True), Attach, {"number": 4}),
    "running": (view(live=live(RUNNING, RUNNING)), Watch, {}),
    "one host is done": (view(live=live(DONE, RUNNING)), Watch, {}),
    "all are done": (view(live=live(DONE, DONE)), Close, {"failure": None}),
    "a host failed just now": (view(live=live(RUNNING, RAISED, failing_for=SETTLE_SECONDS - 0.1)), Watch, {}),
    "a host failed a while ago": (view(live=live(RUNNING, RAISED, failing_for=SETTLE_SECONDS)), Close, {}),
    "a host is gone": (view(live=live(RUNNING, GONE, failing_for=0.0)), Close, {}),
    "a host is gone while the hosts leave": (
        view(live=live(RUNNING, GONE, failing_for=0.0, stopping_for=0.5)), Watch, {}),
    "others save after a notice": (view(live=live(RUNNING, TOLD, failing_for=SETTLE_SECONDS)), Watch, {}),
    "others never leave after one": (view(live=live(RUNNING, TOLD, failing_for=BEYOND_GRACE)), Close, {}),
    "stop asked": (view(live=live(RUNNING), is_stop_asked=True), TellToLeave, {}),
    "stop asked, told": (view(live=live(RUNNING), is_stop_asked=True, held=A, last_number=4), TellToLeave, {}),
    "they have their grace": (view(live=live(RUNNING, stopping_for=JOB.grace), is_stop_asked=True), Watch, {}),
    "a stop does not cut a save short": (
        view(live=live(RUNNING, GONE, stopping_for=1.0, failing_for=3.0), is_stop_asked=True), Watch, {}),
    "a host never began, the others have left": (
        view(live=live(PENDING, TOLD, stopping_for=0.1), is_stop_asked=True), Close, {}),
    "a host never began, the others are leaving": (
        view(live=live(PENDING, RUNNING, stopping_for=0.1), is_stop_asked=True), Watch, {}),
    "they had their grace": (view(live=live(RUNNING, stopping_for=BEYOND_GRACE), is_stop_asked=True), Close, {}),
    "told before any host began": (view(live=live(PENDING, PENDING, stopping_for=0.0), is_stop_asked=True), Close, {}),
    "told while one host still starts": (
        view(live=live(RUNNING, PENDING, stopping_for=0.0), is_stop_asked=True), Watch, {}),
    "all ended before the stop reached them": (
        view(live=live(DONE), is_stop_asked=True), Close, {"failure": None}),
    # it was sent, and its slice is not there yet
    "it waits for its slice": (view(live=waiting(LONG)), Watch, {}),
    "it waited for too long": (view(live=waiting(LONG + 1)), Close, {}),
    "it waits, and there is no capacity": (view(live=waiting(1.0, is_dry=True)), Close, {}),
    "the same, and another offer waits elsewhere": (view(live=waiting(1.0)), Watch, {}),
    "the same, of the only offer": (view(live=waiting(1.0, is_dry=True), offers=(A,)), Watch, {}),
    "the same, and the other is refused": (view(live=waiting(1.0, is_dry=True), refused={B: "no"}), Watch, {}),
    "the same, and the other rests": (view(live=waiting(1.0, is_dry=True), dry={B: 9.0}), Watch, {}),
    "the same, and the other is awake": (view(live=waiting(1.0, is_dry=True), dry={B: 0.0}), Close, {}),
    "the same, and the other was tried just now": (
        view(live=waiting(1.0, is_dry=True), ended=(ELSEWHERE,), since_last_end=9.0),
        Watch, {}),
    "the same, and the other was tried long ago": (
        view(live=waiting(1.0, is_dry=True), ended=(ELSEWHERE,), since_last_end=58.0, rest=50.0),
        Close, {}),
    "there was no capacity anywhere for too long": (
        view(live=waiting(1.0, is_dry=True), ended=(ELSEWHERE,), since_last_end=LONG, rest=900.0),
        Close, {}),
    "the same, and it is not said to be none": (
        view(live=waiting(1.0), ended=(ELSEWHERE,), since_last_end=LONG, rest=900.0), Watch, {}),
    "there is no capacity, stop asked": (view(live=waiting(1.0, is_dry=True), is_stop_asked=True), TellToLeave, {}),
    "it waits, stop asked": (view(live=waiting(9.0), is_stop_asked=True), TellToLeave, {}),
    "it waits, told to leave": (view(live=waiting(9.0, stopping_for=0.0), is_stop_asked=True), Close, {}),
    "it cannot go on": (view(live=live(PENDING, RUNNING, cause=NO_IMAGE)), Close, {}),
    "it cannot go on, though all run": (view(live=live(RUNNING, RUNNING, cause=NO_IMAGE)), Close, {}),
    "it cannot go on, and its hosts are saving": (
        view(live=live(replace(RUNNING, is_leaving=True), TOLD, cause=NO_IMAGE, failing_for=0.0)), Watch, {}),
    "it cannot go on, and a host that runs was not told": (
        view(live=live(RUNNING, TOLD, cause=NO_IMAGE, failing_for=0.0)), Close, {}),
    "it cannot go on, and its hosts never leave": (
        view(live=live(RUNNING, TOLD, cause=NO_IMAGE, failing_for=BEYOND_GRACE)), Close, {}),
    "it cannot go on, stop asked": (view(live=live(RUNNING, cause=NO_IMAGE), is_stop_asked=True), Close, {}),
    # an attempt has ended
    "succeeded": (view(ended=(ended(None),), held=A), Finish, {"state": JobState.SUCCEEDED, "failure": None}),
    "succeeded though a stop was asked": (
        view(ended=(ended(None),), is_stop_asked=True), Finish, {"state": JobState.SUCCEEDED}),
    "failed, stop asked": (view(ended=(LOST,), is_stop_asked=True), Finish, {"state": JobState.STOPPED}),
    "its hosts were stopped": (view(ended=(ended(FailureKind.STOPPED),)), Finish, {"state": JobState.STOPPED}),
    "progress": (view(ended=(ended(FailureKind.PREEMPTED, saved=5),), last_number=3), Provision, {"number": 4}),
    "progress, slice held": (view(ended=(ended(FailureKind.PREEMPTED, saved=5),), held=A), Submit, {}),
    "no progress": (view(ended=(LOST,), since_last_end=2.0), BackOff, {"seconds": 3.0}),
    "no progress, waited": (view(ended=(LOST,), since_last_end=5.0, last_number=3), Provision, {"offer": A}),
    "no capacity: the other offer, at once": (
        view(ended=(ended(FailureKind.NO_CAPACITY),)), Provision, {"offer": B}),
    "no capacity: what is held is no slice": (
        view(ended=(ended(FailureKind.NO_CAPACITY),), held=A), Provision, {"offer": B}),
    "no capacity of the only offer, which is held": (
        view(ended=(ended(FailureKind.NO_CAPACITY),), held=A, refused={B: "no"}, since_last_end=9.0), Submit, {}),
    "no capacity, and no budget": (
        view(ended=(LOST, LOST, ended(FailureKind.NO_CAPACITY)), refused={A: "no"}), Provision, {"offer": B}),
    "no capacity of all of them in turn": (
        view(ended=(ended(FailureKind.NO_CAPACITY), elsewhere(FailureKind.NO_CAPACITY)), since_last_end=2.0),
        BackOff, {"seconds": 8.0}),
    "no capacity of all of them in turn, waited": (
        view(ended=(ended(FailureKind.NO_CAPACITY), elsewhere(FailureKind.NO_CAPACITY)), since_last_end=10.0),
        Provision, {"offer": A}),
    "no capacity of all of them for too long": (
        view(ended=(ended(FailureKind.NO_CAPACITY), elsewhere(FailureKind.NO_CAPACITY, LONG)), since_last_end=99.0),
        Finish, {"state": JobState.FAILED}),
    "no capacity of all of them in turn, and the first has rested": (
        view(ended=(ended(FailureKind.NO_CAPACITY), elsewhere(FailureKind.NO_CAPACITY, 30.0)), rest=20.0),
        Provision, {"offer": A}),
    "the same, and it is refused by now": (
        view(ended=(ended(FailureKind.NO_CAPACITY), elsewhere(FailureKind.NO_CAPACITY, 30.0)), rest=20.0,
             refused={A: "no"}), BackOff, {}),
    "a pool that lacks a host, and another slice is free": (
        view(ended=(degraded("pool-a"),), last_number=3), Provision, {"number": 4, "offer": A}),
    "the same with a slice that is held": (view(ended=(degraded("pool-a"),), held=A), Submit, {}),
    "the same pool again": (view(ended=(degraded("pool-a"), degraded("pool-a"))), Provision, {"offer": B}),
    "one pool after the other": (view(ended=(degraded("pool-a"), degraded("pool-b"))), Provision, {"offer": A}),
    "a pool of the second offer that lacks a host": (
        view(ended=(ended(FailureKind.NO_CAPACITY), replace(degraded("pool-b"), accelerator="v5e-16"))),
        Provision, {"offer": B}),
    "no quota: the other offer": (view(ended=(ended(FailureKind.NO_QUOTA),)), Provision, {"offer": B}),
    "no quota of the only offer": (
        view(ended=(ended(FailureKind.NO_QUOTA),), offers=(A,)), Finish, {"state": JobState.FAILED}),
    "no image": (view(ended=(ended(FailureKind.IMAGE),)), Finish, {"state": JobState.FAILED}),
    "no capacity of the only offer": (
        view(ended=(ended(FailureKind.NO_CAPACITY),), offers=(A,), since_last_end=2.0), BackOff, {"seconds": 3.0}),
    "no capacity, and none of the others": (
        view(ended=(ended(FailureKind.NO_CAPACITY),), refused={A: "no", B: "no"}, since_last_end=9.0),
        Finish, {"state": JobState.FAILED}),
    "budget spent": (view(ended=(LOST,) * 3, since_last_end=999.0), Finish, {"state": JobState.FAILED}),
    "first program error": (view(ended=(ended(FailureKind.PROGRAM_ERROR),), last_number=3), Provision, {}),
    "second program error": (
        view(ended=(ended(FailureKind.PROGRAM_ERROR),) * 2), Finish, {"state": JobState.FAILED}),
    "not retried": (view(ended=(ended(FailureKind.REFUSED),)), Finish, {"state": JobState.FAILED}),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_the_action(case: str) -> None:
    given, kind, facts = TABLE[case]
    action = step(given)
    assert type(action) is kind
    assert {name: getattr(action, name) for name in facts} == facts


def test_a_failed_job_ends_with_its_last_attempts_failure() -> None:
    last = ended(FailureKind.REFUSED)
    assert step(view(ended=(LOST, last))) == Finish(state=JobState.FAILED, failure=last.failure)


@pytest.mark.parametrize(("is_stop_asked", "kind"), [(True, FailureKind.STOPPED), (False, FailureKind.PREEMPTED)])
def test_hosts_that_never_left_are_no_success(is_stop_asked: bool, kind: FailureKind) -> None:
    action = step(view(live=live(DONE, RUNNING, stopping_for=BEYOND_GRACE), is_stop_asked=is_stop_asked))
    assert isinstance(action, Close) and action.failure is not None
    assert action.failure.kind is kind


def test_a_slice_that_does_not_come_in_time_is_named_with_what_it_waited_for() -> None:
    action = step(view(live=waiting(LONG + 1)))
    assert isinstance(action, Close) and action.failure is not None and action.failure.kind is FailureKind.NO_CAPACITY
    assert action.failure.message == ("No slice of v6e-16 within 60 s (provision_timeout): 16 chips in use.")


def test_an_attempt_whose_image_does_not_come_in_time_is_told_of_its_image() -> None:
    waits = Waiting(reason="host 1 cannot start: ErrImagePull: no such image", kind=FailureKind.IMAGE)
    seen = Observation(attempt=4, hosts=(PENDING, PENDING), waiting=waits)
    action = step(view(live=Live(number=4, offer=A, observation=seen, waiting_for=LONG + 1)))
    assert action == Close(
        failure=failure(
            FailureKind.IMAGE,
            "The attempt on v6e-16 did not begin within 60 s (provision_timeout):"
            " host 1 cannot start: ErrImagePull: no such image.",
        )
    )


def test_a_job_that_waited_for_quota_alone_ends_for_want_of_it() -> None:
    action = step(view(offers=(A,), lacking={A: "none left"}, short_of=FailureKind.NO_QUOTA, waited=LONG + 1))
    assert isinstance(action, Finish) and action.failure is not None and action.failure.kind is FailureKind.NO_QUOTA


def test_one_without_capacity_is_named_with_what_it_waited_for() -> None:
    action = step(view(live=waiting(1.0, is_dry=True)))
    assert isinstance(action, Close) and action.failure is not None and action.failure.kind is FailureKind.NO_CAPACITY
    assert action.failure.message == "v6e-16 has no capacity now: 16 chips in use."


def test_a_job_that_found_no_slice_ends_with_the_reasons_of_all_offers() -> None:
    given = view(dry={A: 9.0}, lacking={A: "GCE_STOCKOUT"}, refused={B: "no quota."}, waited=LONG + 1)
    action = step(given)
    assert isinstance(action, Finish) and action.failure is not None and action.failure.kind is FailureKind.NO_CAPACITY
    assert action.failure.evidence == ("v6e-16: GCE_STOCKOUT.", "v5e-16: no quota.")
    assert action.failure.message == (
        "No slice within 60 s (provision_timeout). v6e-16: GCE_STOCKOUT. v5e-16: no quota."
    )


def test_so_does_one_whose_attempts_waited_in_vain() -> None:
    last = elsewhere(FailureKind.NO_QUOTA, LONG)
    action = step(view(ended=(ended(FailureKind.NO_CAPACITY), last)))
    assert isinstance(action, Finish) and action.failure is not None and last.failure is not None
    assert (action.failure.kind, action.failure.advice) == (FailureKind.NO_QUOTA, last.failure.advice)
    assert action.failure.evidence == ("v6e-16: it happened.", "v5e-16: it happened.")
    alone = step(view(offers=(A,), ended=(replace(ended(FailureKind.NO_CAPACITY), ended=LONG),)))
    assert isinstance(alone, Finish) and alone.failure is not None and alone.failure.message == "it happened"


OFFERS = tuple(Offer(accelerator="v6e-16", cluster=cluster, zone=zone) for cluster in "ab" for zone in ("x", "y"))
ANSWERS = st.sampled_from(["dry", "refused"])


@given(st.lists(st.tuples(ANSWERS, st.floats(0.5, 30.0)), max_size=40))
@settings(max_examples=60, deadline=None)
def test_offers_are_asked_in_turn_until_the_time_is_over_and_none_is_forgotten(
    answers: list[tuple[str, float]],
) -> None:
    now, wakes, refused, asked = 0.0, dict[Offer, float](), dict[Offer, str](), list[Offer]()
    script = iter(answers)
    while True:
        said = {offer: f"{offer.cluster}-{offer.zone} had none" for offer in wakes}
        rests = {offer: moment - now for offer, moment in wakes.items()}
        action = step(view(offers=OFFERS, refused=refused, lacking=said, dry=rests, waited=now))
        if isinstance(action, Rest):
            assert all(rests[offer] > 0.0 for offer in OFFERS if offer not in refused), "nobody is awake"
            now += action.seconds
        elif isinstance(action, Provision):
            answer, took = next(script, ("dry", 5.0))
            asked.append(action.offer)
            now += took
            if answer == "refused":
                refused[action.offer] = f"{action.offer.cluster}-{action.offer.zone} is refused"
            else:
                wakes[action.offer] = now + 60.0
        else:
            break
    assert isinstance(action, Finish) and action.failure is not None
    known = [offer for offer in OFFERS if offer in wakes or offer in refused]
    assert [line.rpartition(": ")[2].split()[0] for line in action.failure.evidence] == [
        f"{offer.cluster}-{offer.zone}" for offer in known
    ]
    between = {offer: [i for i, other in enumerate(asked) if other == offer] for offer in OFFERS}
    for offer, moments in between.items():
        for first, second in pairwise(moments):
            others = set(asked[first + 1 : second])
            assert others >= set(OFFERS) - {offer} - set(refused), "every other one had its turn"


@pytest.mark.parametrize("is_stop_asked", [True, False])
def test_what_was_told_to_end_before_it_began_is_said_to_be_that(is_stop_asked: bool) -> None:
    action = step(view(live=waiting(9.0, stopping_for=0.0), is_stop_asked=is_stop_asked))
    assert isinstance(action, Close) and action.failure is not None
    assert action.failure.message == "The attempt was told to end before any of its hosts began."


# -- a random backend ------------------------------------------------------------------------------

HOSTS = 2
HOWS: dict[str, Callable[[int], HostObservation]] = {
    "done": lambda host: left(host, ExitCode.DONE),
    "gone": lambda host: HostObservation(host=host, phase=HostPhase.ENDED, joined=True, signal=9),
    "raised": lambda host: left(host, ExitCode.PROGRAM_RAISED),
    "lost_peer": lambda host: left(host, ExitCode.LOST_PEER, lost_peer=True),
    "notice": lambda host: left(host, ExitCode.PREEMPTED, stop_reason=StopReason.NOTICE.value),
    "refused": lambda host: left(host, ExitCode.PAYLOAD_REFUSED),
}
FATES = st.sampled_from([*HOWS, "hangs", "waits"])
CAUSES = st.sampled_from([FailureKind.IMAGE, FailureKind.NO_CAPACITY, FailureKind.HOST_LOST, FailureKind.NO_QUOTA])
PROGRAM = (FailureKind.PROGRAM_ERROR, FailureKind.OUT_OF_MEMORY)


class RandomBackend(RuleBasedStateMachine):
    """What is written down, what the hosts do, and what one driver remembers until it is killed."""

    @initialize(fate=FATES)
    def begin(self, fate: str) -> None:
        self.fate = fate  # of all hosts that still run, or wait, when the random part is over
        self.is_waiting = self.is_dry = False
        self.cause: Cause | None = None
        self.accelerator = ""
        self.began = 0.0
        self.now = 0.0
        self.ended: list[AttemptSummary] = []
        self.ended_at = 0.0
        self.live: int | None = None
        self.hosts: dict[int, HostObservation] = {}
        self.saved: int | None = None
        self.numbers: list[int] = []
        self.is_stop_asked = False
        self.finish: Finish | None = None
        self.driver_dies()

    @rule()
    def driver_dies(self) -> None:
        self.held: Offer | None = None
        self.refused: dict[Offer, str] = {}
        self.wakes: dict[Offer, float] = {}
        self.is_attached = False
        self.failing_since: float | None = None
        self.stopping_since: float | None = None

    @rule(seconds=st.sampled_from([0.1, 1.0, 2.5, 9.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.live is not None)
    @rule(kind=CAUSES)
    def the_platform_gives_up(self, kind: FailureKind) -> None:
        self.cause = Cause(kind=kind, message="it said so")

    @precondition(lambda self: self.live is not None and self.is_waiting)
    @rule()
    def slice_comes(self) -> None:
        self.is_waiting = False
        self.hosts = {host: HostObservation(host=host, phase=HostPhase.RUNNING, joined=True) for host in range(HOSTS)}

    @precondition(lambda self: self.live is not None and self.is_waiting)
    @rule(is_dry=st.booleans())
    def the_autoscaler_speaks(self, is_dry: bool) -> None:
        self.is_dry = is_dry

    @precondition(lambda self: self.live is not None and not self.is_waiting)
    @rule(host=st.integers(0, HOSTS - 1), how=st.sampled_from(sorted(HOWS)))
    def host_ends(self, host: int, how: str) -> None:
        if not self.hosts[host].has_ended:
            self.hosts[host] = HOWS[how](host)

    @precondition(lambda self: self.live is not None)
    @rule(step=st.integers(0, 5))
    def checkpoint_is_sealed(self, step: int) -> None:
        self.saved = max(step, -1 if self.saved is None else self.saved)

    @rule()
    def stop_is_asked(self) -> None:
        self.is_stop_asked = True

    @rule(answer=st.sampled_from(["held", "held", "waiting", "dry", "refused"]))
    def drive(self, answer: str) -> None:
        if self.finish is None:
            self.perform(step(self.view()), answer)

    def view(self) -> View:
        return View(
            job=JOB,
            offers=(A, B),
            ended=tuple(self.ended),
            last_number=max(self.numbers, default=0),
            since_last_end=self.now - self.ended_at,
            live=None if self.live is None else self.look(self.live),
            refused=self.refused,
            lacking=dict.fromkeys(self.wakes, "none"),
            dry={offer: moment - self.now for offer, moment in self.wakes.items()},
            held=self.held,
            is_stop_asked=self.is_stop_asked,
        )

    def look(self, number: int) -> Live:
        if not self.is_attached:
            return Live(number=number, offer=Offer(accelerator=self.accelerator))
        waits = Waiting(reason="all is taken", is_dry=self.is_dry) if self.is_waiting else None
        seen = Observation(attempt=number, hosts=tuple(self.hosts.values()), waiting=waits, cause=self.cause)
        if seen.has_failure and self.failing_since is None:
            self.failing_since = self.now
        failing = None if self.failing_since is None else self.now - self.failing_since
        stopping = None if self.stopping_since is None else self.now - self.stopping_since
        return Live(
            number=number,
            offer=Offer(accelerator=self.accelerator),
            observation=seen,
            failing_for=failing,
            waiting_for=self.now - self.began if self.is_waiting else None,
            stopping_for=stopping,
        )

    def perform(self, action: Action, answer: str) -> None:
        match action:
            case Provision():
                self.provision(action, answer)
            case Submit():
                self.submit(action.number)
            case Attach():
                assert action.number == self.live
                self.is_attached = True
            case TellToLeave():
                assert self.stopping_since is None, "hosts are told once"
                self.stopping_since = self.now
            case Close():
                self.close(action)
            case Finish():
                self.finish = action
            case Rest():
                assert self.live is None and action.seconds > 0.0
                self.now += action.seconds
            case Watch() | BackOff():
                self.now += 0.5

    def provision(self, action: Provision, answer: str) -> None:
        assert self.live is None
        assert self.held is None or self.held.accelerator == self.ended[-1].accelerator, "only what came to nothing"
        self.held = None
        assert not self.is_stop_asked, "nothing begins after a stop"
        assert action.number == max(self.numbers, default=0) + 1
        assert action.offer not in self.refused
        assert self.wakes.get(action.offer, 0.0) <= self.now, "who rests is left alone"
        if answer == "refused":
            self.refused[action.offer] = "none left"
        elif answer == "dry":
            self.wakes[action.offer] = self.now + 60.0
        elif answer == "held":
            self.held = action.offer

    def submit(self, number: int) -> None:
        assert self.live is None, "one live attempt at most"
        assert self.held is not None and not self.is_stop_asked
        assert number not in self.numbers, "a number is never used twice"
        self.numbers.append(number)
        self.live, self.is_attached, self.saved = number, True, None
        self.failing_since = self.stopping_since = None
        self.accelerator, self.began = self.held.accelerator, self.now
        self.is_waiting, self.is_dry, self.cause = True, False, None
        self.hosts = {host: HostObservation(host=host, phase=HostPhase.PENDING) for host in range(HOSTS)}

    def close(self, action: Close) -> None:
        assert self.live is not None
        is_done = all(host.record is not None and host.record.exit_code == 0 for host in self.hosts.values())
        assert (action.failure is None) == is_done, "success is when all hosts are done"
        self.ended.append(
            AttemptSummary(
                number=self.live, accelerator=self.accelerator, started=self.began, ended=self.now, outcome="x",
                failure=action.failure, saved_step=self.saved,
            )
        )  # fmt: skip
        self.ended_at, self.live, self.is_attached = self.now, None, False
        self.held = self.held if self.numbers[-1] % 2 else None  # kept for the next attempt, or given back

    @invariant()
    def budgets_hold(self) -> None:
        kinds = [attempt.failure.kind for attempt in self.ended if attempt.failure]
        assert sum(kind in PROGRAM for kind in kinds) <= JOB.max_failures + 1
        newest, fruitless = -1, 0
        for attempt in self.ended:
            saved = -1 if attempt.saved_step is None else attempt.saved_step
            progress, newest = saved > newest, max(newest, saved)
            fruitless += bool(attempt.failure and attempt.failure.kind not in {*PROGRAM, *CAPACITY} and not progress)
        assert fruitless <= JOB.max_preemptions + 1

    @invariant()
    def a_final_state_follows_from_what_was_written(self) -> None:
        if self.finish is None:
            return
        has_succeeded = bool(self.ended) and self.ended[-1].failure is None
        assert self.live is None
        assert (self.finish.state is JobState.SUCCEEDED) == has_succeeded
        assert (self.finish.failure is None) == has_succeeded
        assert self.finish.state.is_final

    def teardown(self) -> None:
        """From wherever the random part led, a patient driver reaches the end, and a stop is obeyed."""
        if not hasattr(self, "fate"):
            return
        was_stopped = self.is_stop_asked and self.finish is None
        for _ in range(2000):
            if self.finish is not None:
                break
            self.drive("held")
            self.hosts_meet_their_fate()
            self.budgets_hold()
        assert self.finish is not None, "the job does not end"
        self.a_final_state_follows_from_what_was_written()
        if was_stopped:
            assert self.finish.state in (JobState.STOPPED, JobState.SUCCEEDED)

    def hosts_meet_their_fate(self) -> None:
        if self.fate == "waits" and self.is_waiting:
            return
        if self.is_waiting and self.live is not None:
            self.slice_comes()
        if self.fate in ("hangs", "waits"):
            self.is_stop_asked = True  # nothing else ends hosts that run without a sign of failure
            return
        for host, seen in self.hosts.items():
            if not seen.has_ended:
                self.hosts[host] = HOWS[self.fate](host)


TestRandomBackend = RandomBackend.TestCase
TestRandomBackend.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
