"""How an attempt stands follows from all that is known of it, whoever looked before, and however many hosts it has."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from prefect_tpu.infra.backends.jobset_facts import (
    ContainerFacts,
    EventFacts,
    Facts,
    JobFacts,
    JobSetFacts,
    OutputFacts,
    PodFacts,
    Said,
)
from prefect_tpu.infra.backends.jobset_symptoms import CREATE_SECONDS, unbearable
from prefect_tpu.infra.backends.jobset_view import view
from prefect_tpu.infra.contract import ExitCode, HostRecord
from prefect_tpu.infra.errors import FailureKind, PlatformError, RefusedForGood
from prefect_tpu.infra.host import records
from prefect_tpu.infra.policy.failures import classify

JOBSET = JobSetFacts(name="j-1", uid="u")
STARTED = OutputFacts(has_started=True)


def facts(hosts: int = 2, slices: int = 1, **more: Any) -> Facts:
    return Facts(attempt=1, slices=slices, hosts=hosts, **more)


def ended(host: int, code: int) -> OutputFacts:
    return OutputFacts(has_started=True, record=HostRecord(attempt=1, host=host, exit_code=code))


# -- A JobSet that is not there --------------------------------------------------------------------


def test_what_nobody_saw_and_no_host_began_was_never_sent() -> None:
    seen = view(facts(), {})
    assert not seen.has_ended and seen.cause is None


def test_whoever_saw_it_go_knows_that_somebody_deleted_it() -> None:
    seen = view(facts(was_there=True, outputs={0: STARTED}), {})
    found = classify(seen)
    assert found is not None and found.kind is FailureKind.STOPPED


def test_one_that_was_gone_before_has_lost_its_hosts_and_is_no_wish_that_the_job_stops() -> None:
    """Kubernetes deletes it a day after its end: a driver that comes back later still goes on."""
    seen = view(facts(outputs={0: STARTED, 1: STARTED}), {})
    found = classify(seen)
    assert seen.has_ended and found is not None and (found.kind, found.retryable) == (FailureKind.HOST_LOST, True)


def test_one_that_was_gone_before_ended_as_its_hosts_say() -> None:
    done = view(facts(outputs={0: ended(0, ExitCode.DONE), 1: ended(1, ExitCode.DONE)}), {})
    assert done.has_ended and classify(done) is None
    raised = view(facts(outputs={0: ended(0, ExitCode.PROGRAM_RAISED), 1: STARTED}), {})
    found = classify(raised)
    assert found is not None and (found.kind, found.host) == (FailureKind.PROGRAM_ERROR, 0)


# -- Last words -----------------------------------------------------------------------------------


def ended_saying(words: str, code: int, reason: str = "Error") -> Facts:
    over = ContainerFacts(has_ended=True, exit_code=code, ended=Said(reason=reason, message=words))
    pod = PodFacts(name="p0", uid="u0", host=0, slice=0, phase="Failed", container=over)
    return facts(hosts=1, jobset=JOBSET, was_there=True, pods=(pod,))


TOO_OLD = "prefect-tpu: A host needs Python 3.11 or newer, and this image has 3.9. Name another image.\n"
FORBIDDEN = records.cannot_begin("gs://b/j/1", RefusedForGood("it is forbidden.")).to_json().decode()
UNREACHABLE = records.cannot_begin("gs://b/j/1", PlatformError("it cannot be reached.")).to_json().decode()


@pytest.mark.parametrize(
    ("words", "code", "reason", "kind", "said"),
    [
        (FORBIDDEN, 84, "Error", FailureKind.REFUSED, "CannotBegin: it is forbidden."),
        (UNREACHABLE, 87, "Error", FailureKind.HOST_LOST, "CannotBegin: it cannot be reached."),
        (TOO_OLD, 84, "Error", FailureKind.REFUSED, f"CannotBegin: {TOO_OLD[13:-1]}"),
        ('exec: "python3": not found', 128, "StartError", FailureKind.IMAGE, 'exec: "python3": not found'),
        ("exec format error", 128, "ContainerCannotRun", FailureKind.IMAGE, "exec format error"),
        (
            "sh: 1: python3:\n not found\n",
            127,
            "Error",
            FailureKind.HOST_LOST,
            "(exit code 127: sh: 1: python3: not",
        ),
        ("{ is no record", 1, "Error", FailureKind.HOST_LOST, "(exit code 1: { is no record)"),
        ("", 84, "Error", FailureKind.HOST_LOST, "(exit code 84)"),
        ("", 137, "Error", FailureKind.HOST_LOST, "(SIGKILL)"),
        ("", 255, "Error", FailureKind.HOST_LOST, "(exit code 255)"),  # no signal has this number
    ],
)
def test_why_a_host_could_not_begin_is_told(words: str, code: int, reason: str, kind: FailureKind, said: str) -> None:
    found = classify(view(ended_saying(words, code, reason), {}))
    assert found is not None and (found.kind, found.host) == (kind, 0)
    assert said in found.message


def test_of_endless_last_words_the_end_is_told() -> None:
    found = classify(view(ended_saying("word " * 1_000 + "at last", 1), {}))
    assert found is not None and found.message.endswith("word at last).") and len(found.message) < 500


# -- Many slices -----------------------------------------------------------------------------------


def test_the_slice_whose_pods_are_refused_is_found_by_its_number_not_by_its_name() -> None:
    """By name the Job of slice 10 comes before that of slice 2."""
    jobs = tuple(JobFacts(name=f"j-1-s-{index}", slice=index) for index in sorted(range(12), key=str))
    pods = tuple(
        PodFacts(name=f"j-1-s-{index}-0-x", uid=f"u{index}", host=index, slice=index, phase="Pending")
        for index in range(12)
        if index != 10
    )
    said = Said(reason="FailedCreate", message="denied by a policy")
    event = EventFacts(kind="Job", name="j-1-s-10", said=said)
    known = facts(hosts=12, slices=12, jobset=JOBSET, was_there=True, jobs=jobs, pods=pods, events=(event,))
    (found,) = unbearable(known, {("refused", "j-1-s-10"): CREATE_SECONDS})
    assert found.about == "j-1-s-10"


# -- Many hosts ------------------------------------------------------------------------------------


def failed_among(hosts: int) -> Facts:
    """One host has failed, and the others were told to leave."""
    said = Said(reason="Error", message="")
    over = ContainerFacts(has_ended=True, exit_code=ExitCode.PROGRAM_RAISED, ended=said)
    pods = tuple(
        PodFacts(
            name=f"p{host}",
            uid=f"u{host}",
            host=host,
            slice=0,
            phase="Failed" if host == 0 else "Running",
            deleted_at=None if host == 0 else 1.0,
            container=over,
        )
        for host in range(hosts)
    )
    return facts(hosts=hosts, jobset=JOBSET, was_there=True, jobs=(JobFacts(name="j-1-s-0"),), pods=pods)


def calls(known: Facts) -> int:
    """How many of Python's functions a look enters: alike on every machine."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        view(known, {})
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("of", [failed_among, lambda hosts: facts(hosts=hosts, jobset=JOBSET)])
def test_a_look_costs_in_proportion_to_the_hosts(of: Any) -> None:
    few, many = calls(of(50)), calls(of(500))
    assert many < 11 * few


# -- One that was told to stop ---------------------------------------------------------------------


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_was_told_to_stop_while_it_waited_has_lost_nothing(is_gone: bool) -> None:
    """Its one pod, the leader's, had no node yet, and Kubernetes removes it without a trace."""
    told = JobSetFacts(name="j-1", uid="u", is_told_to_stop=True, is_suspended=True)
    leader = PodFacts(name="j-1-s-0-0", uid="p", host=0, slice=0, phase="Pending", is_gone=is_gone)
    seen = view(facts(jobset=told, was_there=True, pods=(leader,)), {})
    found = classify(seen)
    assert found is not None and (found.kind, found.host) == (FailureKind.STOPPED, None)
    assert found.message == "It was told to end before any of its hosts began."


def test_what_was_told_to_stop_while_it_ran_says_how_its_hosts_ended() -> None:
    told = JobSetFacts(name="j-1", uid="u", is_told_to_stop=True, is_suspended=True)
    seen = view(facts(jobset=told, was_there=True, outputs={0: STARTED, 1: STARTED}), {})
    found = classify(seen)
    assert found is not None and found.kind is FailureKind.HOST_LOST
