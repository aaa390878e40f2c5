"""Hosts of PyTorch programs that do not do the same are named, and their steps are recorded, as those of JAX are."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from forked_hosts import ForkedSlice

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import Event, Scratch

pytestmark = pytest.mark.frameworks


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("skips", "Host 1 came to step 4 at call 4 of agree(), where hosts 0, 2 came to step 3."),
        ("differs", "Host 1 said weights=torch.float32[3] #"),
    ],
)
def test_a_host_that_does_otherwise_is_named_while_the_others_wait(word: str, said: str, slice_: ForkedSlice) -> None:
    hosts = slice_.start(slice_.plan(3), "guarded", word=word)
    for host, process in enumerate(hosts.processes):
        process.wait()
        account: dict[str, Any] = contract.read_json((hosts.scratch(host) / Scratch.OUTCOME).read_bytes(), "outcome")
        assert account["error"]["type"] == "HostsDiffer" and account["error"]["message"].startswith(said)
        assert account["lost_peer"] is (host != 1)
        waits_in = "all_reduce" if word == "skips" and host != 1 else "guarded"
        assert waits_in in account["error"]["traceback"], "where it stood"


def test_a_barrier_names_who_is_missing(slice_: ForkedSlice) -> None:
    leader, odd = slice_.start(slice_.plan(2), "guarded", word="misses").values()
    assert leader["missing"] == [1] and odd == {}
    assert "Barrier 'trained' was not reached by host 1 within 1 s. Host 1 was last at step 5." in leader["message"]


def test_hosts_that_do_the_same_go_on_and_their_steps_are_recorded(slice_: ForkedSlice) -> None:
    hosts = slice_.start(slice_.plan(2, profile="skip=2,steps=2"), "guarded", word="well")
    first, second = hosts.values()
    assert first == second
    assert [hosts.log(host).count("printed once") for host in (0, 1)] == [1, 0]
    for host in (0, 1):
        (event,) = hosts.events(host, Event.PROFILED)
        assert (event["first"], event["last"]) == (2, 3)
        trace = slice_.output / layout.torch_recording("attempt-1", host)
        named = {event.get("name") for event in json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]}
        assert {"step 2", "step 3"} <= named and not {"step 1", "step 4"} & named
        assert "gloo:all_reduce" in named
    advice = f"steps 2 to 3 are recorded: open a host's file of {slice_.output}/profile in https://ui.perfetto.dev"
    assert [advice in hosts.log(host) for host in (0, 1)] == [True, False]


def test_one_host_alone_waits_for_nobody(slice_: ForkedSlice) -> None:
    (value,) = slice_.start(slice_.plan(1), "guarded", word="skips").values()
    assert value["weights"] == pytest.approx([1.1**6] * 3)
