"""What an attempt's hosts left behind → why it ended."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.contract import ExitCode, HostRecord, KilledBy, ProgramError, Progress, Silence, StopReason
from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.policy.failure_kinds import ADVICE, RETRYABLE, failure, with_saves
from prefect_tpu.infra.policy.failures import classify, is_decided
from prefect_tpu.infra.state import Cause, HostObservation, HostPhase, Observation

Kind = FailureKind
TAKEN = Cause(kind=Kind.PREEMPTED, message="node deleted.")
LOST = Cause(kind=FailureKind.HOST_LOST, message="its node is gone")


def running(host: int) -> HostObservation:
    return HostObservation(host=host, phase=HostPhase.RUNNING, joined=True)


def gone(host: int, **changes: Any) -> HostObservation:
    return HostObservation(**{"host": host, "phase": HostPhase.ENDED, "joined": True, **changes})


def ended(host: int, code: int, *, cause: Cause | None = None, **changes: Any) -> HostObservation:
    """With a record. All hosts met 10 s after their runner's start unless told otherwise."""
    values = {"attempt": 1, "host": host, "exit_code": code, "joined_after": 10.0, "ended_after": 20.0, **changes}
    joined = values["joined_after"] is not None
    return gone(host, exit_code=code, joined=joined, cause=cause, record=HostRecord(**values))


def done(host: int, **changes: Any) -> HostObservation:
    return ended(host, ExitCode.DONE, **changes)


def raised(host: int, kind: str = "ValueError", message: str = "bad shape", **changes: Any) -> HostObservation:
    error = ProgramError(type=kind, message=message, traceback="")
    return ended(host, ExitCode.PROGRAM_RAISED, **{"error": error, "program_code": 80, **changes})


def lost_peer(host: int, **changes: Any) -> HostObservation:
    error = ProgramError(type="JaxRuntimeError", message="UNAVAILABLE: Connection reset by peer", traceback="")
    return ended(host, ExitCode.LOST_PEER, **{"error": error, "lost_peer": True, **changes})


def differs(host: int, **changes: Any) -> HostObservation:
    return raised(host, "HostsDiffer", "Host 1 said batch=16.", **{"lost_peer": True, **changes})


def by_signal(host: int, number: int, **changes: Any) -> HostObservation:
    return ended(host, ExitCode.PROGRAM_RAISED, **{"program_signal": number, **changes})


def told(host: int, code: int, reason: StopReason, **changes: Any) -> HostObservation:
    return ended(host, code, **{"stop_reason": reason, **changes})


def stalled(host: int, step: int | None = None, **changes: Any) -> HostObservation:
    progress = Progress(step=step, reported_after=None if step is None else 15.0)
    values = {"program_signal": 9, "killed_by": KilledBy.STALL, "progress": progress, "silence": SILENCE, **changes}
    return ended(host, ExitCode.STALLED, **values)


SILENCE = Silence(silent_for=61.5, where="train.py:41 in main")
NOT_MET: dict[str, Any] = {"joined_after": None}
MISSING = ProgramError(type="CouldNotJoin", message="digits-1: hosts 1 did not come within 2 s.", traceback="")
GONE = ProgramError(type="RegionLost", message="Host 1 is gone.", traceback="")
UNCALLED = ProgramError(type="CouldNotJoin", message="Host 1 was not called by the leader.", traceback="")
TABLE: dict[str, tuple[list[HostObservation], FailureKind | None, int | None]] = {
    "all done": ([done(0), done(1)], None, None),
    "done though told to leave": ([told(0, ExitCode.DONE, StopReason.NOTICE), done(1)], None, None),
    "nobody has ended": ([running(0), running(1)], None, None),
    # a host that is gone outranks what the survivors saw
    "no record": ([raised(0), gone(1), raised(2)], Kind.HOST_LOST, 1),
    "no record and lost peers": ([lost_peer(0), gone(1, signal=9), lost_peer(2)], Kind.HOST_LOST, 1),
    "a damaged record counts as none": ([raised(0), gone(1, exit_code=80, reason="damaged")], Kind.HOST_LOST, 1),
    "program killed from outside": ([raised(0), by_signal(1, signal.SIGKILL)], Kind.HOST_LOST, 1),
    "program terminated from outside": ([by_signal(0, signal.SIGTERM), lost_peer(1)], Kind.HOST_LOST, 0),
    "a lone host killed": ([by_signal(0, signal.SIGKILL)], Kind.HOST_LOST, 0),
    "killed before the hosts met": ([gone(0, joined=False), lost_peer(1, **NOT_MET)], Kind.HOST_LOST, 0),
    "a flow lost a host that was there": ([lost_peer(0, error=GONE, **NOT_MET), running(1)], Kind.UNKNOWN, None),
    "a bucket away is not the program's doing": ([raised(0, "StorageAway", "503"), lost_peer(1)], Kind.UNKNOWN, 0),
    # the platform's own word outranks that
    "node taken away": ([gone(0), gone(1, cause=TAKEN), raised(2)], Kind.PREEMPTED, 1),
    "notice, others saved with it": (
        [ended(0, ExitCode.PREEMPTED), told(1, ExitCode.PREEMPTED, StopReason.NOTICE)], Kind.PREEMPTED, 1),
    "notice, another host lost its peer": (
        [lost_peer(0), told(1, ExitCode.PREEMPTED, StopReason.NOTICE)], Kind.PREEMPTED, 1),
    "notice, killed after its grace": (
        [told(0, ExitCode.PREEMPTED, StopReason.NOTICE, program_signal=9), lost_peer(1)], Kind.PREEMPTED, 0),
    "notice to a host that was done, others not": (
        [told(0, ExitCode.DONE, StopReason.NOTICE), raised(1)], Kind.PREEMPTED, 0),
    # somebody's wish outranks everything
    "stop": ([told(0, ExitCode.STOPPED, StopReason.STOP), done(1)], Kind.STOPPED, None),
    "stop, and a host was lost": ([told(0, ExitCode.STOPPED, StopReason.STOP), gone(1)], Kind.STOPPED, None),
    "stop over notice": (
        [told(0, ExitCode.PREEMPTED, StopReason.NOTICE), told(1, ExitCode.STOPPED, StopReason.STOP)],
        Kind.STOPPED, None),
    "deadline": ([told(0, ExitCode.STOPPED, StopReason.DEADLINE), lost_peer(1)], Kind.DEADLINE, None),
    "orphaned": ([told(h, ExitCode.PREEMPTED, StopReason.ORPHANED) for h in (0, 1)], Kind.PREEMPTED, None),
    # what runners say outranks what programs raise
    "wrong slice": ([raised(0), ended(1, ExitCode.WRONG_SLICE)], Kind.WRONG_TOPOLOGY, 1),
    "refused": ([lost_peer(0, **NOT_MET), ended(1, ExitCode.PAYLOAD_REFUSED, **NOT_MET)], Kind.REFUSED, 1),
    "could not begin": ([lost_peer(0, **NOT_MET), ended(1, ExitCode.CANNOT_BEGIN, **NOT_MET)], Kind.HOST_LOST, 1),
    # exceptions of programs
    "one raised, others saw it": ([lost_peer(0), raised(1), lost_peer(2)], Kind.PROGRAM_ERROR, 1),
    "hosts differ, and one says it is the one": (
        [differs(0), differs(1, lost_peer=False), by_signal(2, signal.SIGABRT, lost_peer=True)], Kind.PROGRAM_ERROR, 1),
    "hosts differ, and the one could not say so": ([differs(0), gone(1, signal=9)], Kind.PROGRAM_ERROR, None),
    "hosts differ from the start": ([differs(h, lost_peer=False) for h in (0, 1)], Kind.PROGRAM_ERROR, None),
    "waited for another in vain": ([raised(0, "HostsMissing"), running(1)], Kind.PROGRAM_ERROR, None),
    "one raised, others still run": ([running(0), raised(1), running(2)], Kind.PROGRAM_ERROR, 1),
    "first since the hosts met": (
        [raised(0, ended_after=30.0), raised(1, joined_after=26.0, ended_after=35.0)], Kind.PROGRAM_ERROR, 1),
    "equal in time": ([raised(0), raised(1)], Kind.PROGRAM_ERROR, 0),
    "raised before the hosts met": (
        [raised(0, ended_after=3.0, **NOT_MET), lost_peer(1, **NOT_MET)], Kind.PROGRAM_ERROR, 0),
    "a command's exit code": ([ended(0, ExitCode.PROGRAM_RAISED, program_code=3)], Kind.PROGRAM_ERROR, 0),
    "the program said that it had no memory": ([lost_peer(0), raised(1, out_of_memory=True)], Kind.OUT_OF_MEMORY, 1),
    "words about memory decide nothing": (
        [raised(0, "MemoryError", "RESOURCE_EXHAUSTED: out of memory")], Kind.PROGRAM_ERROR, 0),
    # the kernel's word outranks what the others saw
    "killed for its memory": (
        [raised(0), by_signal(1, signal.SIGKILL, killed_by=KilledBy.MEMORY), gone(2)], Kind.OUT_OF_MEMORY, 1),
    "a shell's child killed for its memory": (
        [ended(0, ExitCode.PROGRAM_RAISED, program_code=137, killed_by=KilledBy.MEMORY)], Kind.OUT_OF_MEMORY, 0),
    "killed for its memory after a notice": (
        [told(0, ExitCode.PREEMPTED, StopReason.NOTICE, program_signal=9, killed_by=KilledBy.MEMORY)],
        Kind.PREEMPTED, 0),
    # all stood still
    "stalled": ([stalled(0, step=41), stalled(1, step=40), stalled(2, step=41)], Kind.STALLED, 1),
    "stalled, the last hosts were ended by the launcher": ([stalled(0, step=3), gone(1, signal=9)], Kind.STALLED, 0),
    "stalled, others lost their peer": ([lost_peer(0), stalled(1, step=3)], Kind.STALLED, 1),
    "stalled, others still run": ([running(0), stalled(1, step=3)], Kind.STALLED, 1),
    "stalled, no step was ever reported": ([stalled(0), stalled(1)], Kind.STALLED, None),
    "stalled after a host had raised": (
        [stalled(0, step=3, ended_after=60.0), raised(1, ended_after=30.0)], Kind.PROGRAM_ERROR, 1),
    "stalled after a program was killed": (
        [stalled(0, step=3, ended_after=60.0), by_signal(1, 9, ended_after=30.0)], Kind.HOST_LOST, 1),
    "stalled, then another raised": (
        [stalled(0, step=3, ended_after=60.0), raised(1, ended_after=61.0)], Kind.STALLED, 0),
    "stalled, and the platform took a host": (
        [stalled(0, step=3), gone(1, cause=TAKEN)], Kind.PREEMPTED, 1),
    "stalled, and a stop": ([stalled(0, step=3), told(1, ExitCode.STOPPED, StopReason.STOP)], Kind.STOPPED, None),
    **{
        f"{number.name} is the program's own": ([lost_peer(0), by_signal(1, number)], Kind.PROGRAM_ERROR, 1)
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)
    },
    # a program that heard of a preemption by itself
    "all left, nobody was told": ([ended(h, ExitCode.PREEMPTED) for h in (0, 1)], Kind.PREEMPTED, 0),
    "some left, others lost them": ([lost_peer(0), ended(1, ExitCode.PREEMPTED), done(2)], Kind.PREEMPTED, 1),
    "left before the hosts met": ([ended(0, ExitCode.PREEMPTED, **NOT_MET)], Kind.PREEMPTED, 0),
    "one raised, others left": ([ended(0, ExitCode.PREEMPTED), raised(1)], Kind.PROGRAM_ERROR, 1),
    "one is gone, others left": ([ended(0, ExitCode.PREEMPTED), gone(1)], Kind.HOST_LOST, 1),
    # nobody says why
    "lost peers alone": ([lost_peer(0), lost_peer(1)], Kind.UNKNOWN, None),
    "aborted by the coordination service": (
        [by_signal(h, signal.SIGABRT, lost_peer=True) for h in (0, 1)], Kind.UNKNOWN, None),
    "could not join": ([lost_peer(0, **NOT_MET), lost_peer(1, **NOT_MET)], Kind.COULD_NOT_JOIN, None),
    "could not join, another host reported without joining": (
        [lost_peer(0, error=MISSING, **NOT_MET), lost_peer(1)], Kind.COULD_NOT_JOIN, None),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_the_cause(case: str) -> None:
    hosts, kind, host = TABLE[case]
    found = classify(Observation(attempt=1, hosts=tuple(hosts)))
    if kind is None:
        assert found is None
    else:
        assert found is not None
        assert (found.kind, found.host) == (kind, host)
        assert found.retryable is (kind in RETRYABLE)
        assert len(found.evidence) == sum(h.has_failed for h in hosts)


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [
        ("preempted", True), ("maintenance", True), ("host_lost", True), ("no_capacity", True), ("no_quota", False),
        ("unschedulable", True), ("image", False), ("could_not_join", True), ("wrong_topology", False),
        ("program_error", False), ("out_of_memory", False), ("stalled", True), ("deadline", False),
        ("stopped", False), ("refused", False), ("unknown", True),
    ],
)  # fmt: skip
def test_every_kind_says_whether_to_try_again_and_what_to_do(kind: str, retryable: bool) -> None:
    made = failure(FailureKind(kind), "It happened.", host=3, evidence=iter(["a"]))
    assert (made.retryable, made.host, made.evidence) == (retryable, 3, ("a",))
    assert made.advice.endswith(".")
    assert set(ADVICE) == set(FailureKind)
    assert Failure.from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ([gone(0, signal=9)], "Host 0 is gone without a record (SIGKILL)."),
        ([gone(0, reason="its runner process is gone")], "(its runner process is gone)"),
        ([gone(0)], "(no trace)"),
        ([by_signal(0, 9)], "The program of host 0 was killed by SIGKILL."),
        ([by_signal(0, 11)], "The program died of SIGSEGV."),
        ([by_signal(0, 63)], "killed by signal 63."),
        ([raised(0)], "ValueError: bad shape"),
        ([ended(0, 80, error=ProgramError(type="AssertionError", message="", traceback=""))], "AssertionError"),
        ([ended(0, 80, program_code=3)], "The program ended with exit code 3."),
        (
            [gone(0, cause=TAKEN)],
            "The platform ended host 0: node deleted.",
        ),
        ([told(0, 81, StopReason.NOTICE, progress=Progress(saved_step=40))], "(step 40 saved)"),
        ([told(0, 81, StopReason.NOTICE)], "(no checkpoint saved)"),
        ([ended(0, 81, progress=Progress(saved_step=7))], "The program of host 0 left (step 7 saved)."),
        ([by_signal(1, 9, killed_by="memory")], "out-of-memory killer ended the program of host 1."),
        (
            [stalled(0, step=41)],
            "No host made a step for 62 s; host 0 stopped first, after step 41, in train.py:41 in main; the stacks of"
            " all hosts are in attempts/1/hosts/*/stacks.txt.",
        ),
        ([lost_peer(0, error=MISSING, **NOT_MET), lost_peer(1, error=UNCALLED, **NOT_MET)], "hosts 1 did not come"),
        ([lost_peer(1, error=UNCALLED, **NOT_MET)], "not called by the leader"),
    ],
)
def test_the_message_names_what_happened(hosts: list[HostObservation], message: str) -> None:
    found = classify(Observation(attempt=1, hosts=tuple(hosts)))
    assert found is not None and message in found.message and not found.message.endswith(":")


def test_the_evidence_has_one_line_per_failed_host() -> None:
    hosts = (done(0), raised(1, message="first\nsecond"), gone(2, signal=9), by_signal(3, 11), gone(4),
             told(5, 81, StopReason.NOTICE, program_signal=9, killed_by=KilledBy.GRACE), raised(6, message=""),
             running(7))  # fmt: skip
    found = classify(Observation(attempt=1, hosts=hosts))
    assert found is not None
    assert found.evidence == (
        "host 1: exit 80, ValueError: first", "host 2: no record, SIGKILL", "host 3: exit 80, SIGSEGV",
        "host 4: no record", "host 5: exit 81, SIGKILL, notice, killed by grace", "host 6: exit 80, ValueError",
    )  # fmt: skip


any_host = st.one_of(
    st.just(running(0)),
    st.builds(gone, st.just(0), signal=st.none() | st.just(9), cause=st.none() | st.just(TAKEN)),
    st.builds(
        ended,
        st.just(0),
        st.sampled_from([int(code) for code in ExitCode]),
        program_signal=st.none() | st.sampled_from([6, 9, 11, 15]),
        stop_reason=st.none() | st.sampled_from(StopReason),
        lost_peer=st.booleans(),
        joined_after=st.none() | st.floats(0, 20),
    ),
)


@given(st.lists(any_host, min_size=1, max_size=5))
@settings(max_examples=80)
def test_whatever_the_hosts_say_there_is_a_verdict_exactly_where_one_failed(hosts: list[HostObservation]) -> None:
    seen = Observation(attempt=1, hosts=tuple(hosts))
    found = classify(seen)
    assert (found is not None) == seen.has_failure
    if found and any(h.has_ended and h.record is None for h in hosts):
        assert found.kind is not FailureKind.PROGRAM_ERROR


DECIDED = {
    "gone without a record": ([running(0), gone(1, signal=9)], True),
    "its program was killed from outside": ([running(0), by_signal(1, signal.SIGKILL)], True),
    "gone while others had a notice": ([running(0), gone(1), told(2, ExitCode.PREEMPTED, StopReason.NOTICE)], False),
    "gone while the job stops": ([running(0), gone(1), told(2, ExitCode.STOPPED, StopReason.STOP)], False),
    "the platform took it": ([running(0), gone(1, cause=TAKEN)], False),
    "its node is gone": ([running(0), gone(1, cause=LOST)], True),
    "its node is gone while others had a notice": (
        [running(0), gone(1, cause=LOST), told(2, ExitCode.PREEMPTED, StopReason.NOTICE)],
        False,
    ),
    "raised": ([running(0), raised(1)], False),
    "crashed": ([running(0), by_signal(1, signal.SIGSEGV)], False),
    "lost its peer": ([running(0), lost_peer(1)], False),
    "nobody has ended": ([running(0), running(1)], False),
}


@pytest.mark.parametrize(("hosts", "wanted"), DECIDED.values(), ids=DECIDED)
def test_a_host_that_is_gone_decides(hosts: list[HostObservation], wanted: bool) -> None:
    assert is_decided(Observation(attempt=1, hosts=tuple(hosts))) is wanted


LATER = st.sampled_from([done, raised, lost_peer, gone, lambda host: by_signal(host, signal.SIGABRT)])


@given(st.lists(LATER, min_size=2, max_size=2))
def test_what_is_decided_stays_whatever_the_others_say(ways: list[Any]) -> None:
    first = Observation(attempt=1, hosts=(gone(0), running(1), running(2)))
    last = Observation(attempt=1, hosts=(gone(0), *(way(host) for host, way in enumerate(ways, 1))))
    assert is_decided(first)
    before, after = classify(first), classify(last)
    assert before is not None and after is not None
    assert (before.kind, before.host) == (after.kind, after.host)


@pytest.mark.parametrize(
    ("saved", "says"),
    [([], "It was so. No step was saved."), ([None, 40, 7], "It was so. Step 40 is saved."), ([0], "Step 0 is saved.")],
)
def test_a_stop_says_what_is_saved(saved: list[int | None], says: str) -> None:
    told = with_saves(failure(FailureKind.STOPPED, "It was so."), saved)
    assert told is not None and told.message.endswith(says)
    other = failure(FailureKind.PREEMPTED, "It was so.")
    assert (with_saves(other, saved), with_saves(None, saved)) == (other, None)
