"""PyTorch, Accelerate and Transformers on four hosts: one is killed, another preempted, and the model is bit for bit
that of a run that met nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from forked_hosts import ForkedSlice, Forks, wait_for

from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.host.lost_peer import is_sign

pytestmark = pytest.mark.frameworks

HOSTS, STEPS = 4, 16
PAUSE = 0.15  # seconds a step: time to strike in between
CASES = ("ddp", "accelerated", "trained")


@pytest.fixture(scope="module", params=CASES)
def undisturbed(
    request: pytest.FixtureRequest, forks: Forks, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    made = ForkedSlice(tmp_path_factory.mktemp("undisturbed"), forks)
    values = made.start(made.plan(HOSTS), request.param, steps=STEPS).values()
    yield request.param, values
    made.end()


def test_a_killed_host_and_a_preemption_change_nothing(
    slice_: ForkedSlice, undisturbed: tuple[str, list[dict[str, Any]]]
) -> None:
    case, whole = undisturbed
    assert len({value["digest"] for value in whole}) == 1

    first = slice_.start(slice_.plan(HOSTS, checkpoint_every=0.4), case, steps=STEPS, pause=PAUSE)
    wait_for(lambda: len(slice_.seals(1)) >= 1, "the first checkpoint")
    first.processes[2].kill()
    survivors = [first.processes[host] for host in (0, 1, 3)]
    for survivor in survivors:
        survivor.wait()
    for host in (0, 1, 3):
        outcome = first.outcome(host)
        assert is_sign(outcome["error"], outcome["message"]), outcome

    saved = slice_.newest()
    second = slice_.start(slice_.plan(HOSTS, restore=saved), case, steps=STEPS, pause=PAUSE)
    second.wait_for_step(saved.step + 3, host=1)
    second.processes[1].send_signal(signal.SIGTERM)
    left = second.outcomes()
    step = left[0]["preempted"]
    assert saved.step + 3 <= step < STEPS - 1 and left == [{"preempted": step}] * HOSTS
    assert slice_.seals(2) == [step] and slice_.newest().step == step
    (restored,) = second.events(3, Event.RESTORED)
    assert (restored["attempt"], restored["step"]) == (1, saved.step)

    last = slice_.start(slice_.plan(HOSTS, restore=slice_.newest()), case, steps=STEPS)
    values = last.values()
    assert {"start": None, **values[0]}["start"] == (str(step) if case == "trained" else step + 1)
    for value in values:
        assert {**value, "start": whole[0]["start"]} == whole[0]
    assert last.progress(0)["metrics"]["loss"] > 0
