"""Echoes of another host's end, told from errors of the program: one text per sign."""

from __future__ import annotations

import re

import pytest

from prefect_tpu.infra.host.lost_peer import (
    SIGNS,
    WORKER_SIGNS,
    is_lost_peer,
    is_lost_worker,
    is_sign,
    is_worker_sign,
)

# As JAX, gloo, torch and the coordination service write them.
TEXTS = {
    r"Gloo .*(failed|timed? ?out)": "FAILED_PRECONDITION: Gloo all-reduce failed: Read error",
    r"gloo::": "[external/gloo/transport/tcp/pair.cc:534] gloo::IoException: unexpected end",
    r"Connection (reset|closed|refused)": "Read error [127.0.0.1]:42: Connection reset by peer",
    r"Socket closed": "recvmsg: Socket closed",
    r"Broken pipe": "writev [127.0.0.1]:42: Broken pipe",
    r"UNAVAILABLE": "UNAVAILABLE: failed to connect to all addresses",
    r"coordination service": "The task lost its connection to the coordination service leader.",
    r"CoordinationService": "INTERNAL: CoordinationServiceAgent is in ERROR state",
    r"another task died": "Terminating process because another task died.",
    r"heartbeat timeout": "Task /job:jax_worker/task:1 heartbeat timeout.",
    r"Barrier .*(failed|timed out|cancelled)": "Barrier save:3 cancelled because task 1 left.",
    r"barrier.*DEADLINE_EXCEEDED": "wait_at_barrier: DEADLINE_EXCEEDED",
    r"DEADLINE_EXCEEDED.*[Bb]arrier": "DEADLINE_EXCEEDED: Shutdown barrier has passed its time",
    r"peer .*(closed|lost|died)": "The peer on rank 3 was lost",
    r"NCCL.*(remote|unhandled system error)": "NCCL error: remote process exited",
}


def test_every_sign_has_its_text() -> None:
    assert tuple(TEXTS) == SIGNS


@pytest.mark.parametrize("sign", SIGNS)
def test_each_sign_is_needed_for_its_text(sign: str) -> None:
    text = TEXTS[sign]
    assert re.search(sign, text)
    assert is_sign("JaxRuntimeError", text)
    assert not any(re.search(other, text) for other in SIGNS if other != sign), "another sign would do"


@pytest.mark.parametrize(
    "name", ["JaxRuntimeError", "XlaRuntimeError", "DistBackendError", "DistNetworkError", "RuntimeError"]
)
def test_the_types_that_carry_errors_of_communication(name: str) -> None:
    assert is_sign(name, "Connection closed by peer")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("JaxRuntimeError", "INVALID_ARGUMENT: shapes differ"),
        ("JaxRuntimeError", "RESOURCE_EXHAUSTED: Out of memory"),
        ("JaxRuntimeError", "DEADLINE_EXCEEDED: compilation"),
        ("RuntimeError", ""),
        ("ConnectionResetError", "Connection reset by peer"),
        ("OSError", "Broken pipe"),
        ("KeyError", "UNAVAILABLE"),
    ],
)
def test_what_is_the_programs_own(name: str, text: str) -> None:
    assert not is_sign(name, text)


def chained(*, cause: bool) -> BaseException:
    try:
        try:
            raise RuntimeError("Gloo all-reduce failed:\nConnection closed")
        except RuntimeError as exc:
            raise KeyError("state") from (exc if cause else None)
    except KeyError as outer:
        return outer


@pytest.mark.parametrize("cause", [True, False])
def test_an_error_that_came_of_a_lost_peer_is_one(cause: bool) -> None:
    assert is_lost_peer(chained(cause=cause))
    assert not is_lost_peer(KeyError("state"))


def test_errors_that_lead_to_each_other_end_the_search() -> None:
    first, second = KeyError("a"), KeyError("b")
    first.__context__, second.__context__ = second, first
    assert not is_lost_peer(first)


# As JAX says it through Pathways, by the words that Pathways' own tools look for.
WORKER_TEXTS = {
    r"\bDATA_LOSS\b": "DATA_LOSS: slice 1 is gone",
    r"\bDEADLINE_EXCEEDED\b": "DEADLINE_EXCEEDED: no answer of worker 3",
    r"\bNOT_FOUND\b": "NOT_FOUND: the buffer is on no device",
    r"\bINTERNAL\b": "INTERNAL: the worker's stream ended",
}


def test_every_sign_of_a_lost_worker_has_its_text() -> None:
    assert tuple(WORKER_TEXTS) == WORKER_SIGNS


@pytest.mark.parametrize("sign", WORKER_SIGNS)
def test_each_sign_of_a_lost_worker_is_one_for_pathways_alone(sign: str) -> None:
    text = WORKER_TEXTS[sign]
    assert is_worker_sign("JaxRuntimeError", text) and not is_worker_sign("RuntimeError", text)
    assert not is_sign("JaxRuntimeError", text)
    assert not any(re.search(other, text) for other in WORKER_SIGNS if other != sign)


def test_a_lost_worker_is_also_what_a_lost_peer_is_and_no_error_of_the_program() -> None:
    assert is_lost_worker(RuntimeError("UNAVAILABLE: the proxy does not answer"))
    assert not is_lost_worker(ValueError("INTERNAL"))
    assert not is_worker_sign("JaxRuntimeError", "INVALID_ARGUMENT: shapes differ")
    assert not is_worker_sign("JaxRuntimeError", "RESOURCE_EXHAUSTED: Out of memory")


class Errors(Exception):
    """Counts as false while it holds none."""

    def __len__(self) -> int:
        return 0


def test_a_cause_that_counts_as_false_leads_on_all_the_same() -> None:
    try:
        try:
            try:
                raise RuntimeError("recvmsg: Socket closed")
            except RuntimeError as exc:
                raise Errors from exc
        except Errors as exc:
            raise KeyError("step") from exc
    except KeyError as exc:
        assert is_lost_peer(exc)
