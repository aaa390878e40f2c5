"""`prefect-tpu checkpoints` of a job whose files lie there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from prefect_tpu.flows.shell.checkpoint_table import size
from prefect_tpu.infra import layout, seals
from prefect_tpu.infra.plan import RestorePoint

Shell = Callable[..., Any]


def test_the_whole_ones_are_listed_with_what_was_said_of_them(shell: Shell, jobs: Any) -> None:
    storage = jobs.asked("digits")
    root = storage.inside(layout.CHECKPOINTS)
    for step, facts in ((9, {"metrics": {"accuracy": 0.98765}, "side": {"lr": 0.1}, "hosts": 2}), (19, {}), (29, {})):
        root.put(f"1/{step}/state/array", b"0" * 2048)
        seals.seal(root, RestorePoint(attempt=1, step=step), **facts)
    root.delete("1/29/state/array")
    first, *rows = shell("checkpoints", "digits").out.splitlines()
    assert first.split() == ["STEP", "ATTEMPT", "SIZE", "METRICS", "PLACE"]
    assert [row.split()[:-1] for row in rows] == [
        ["19", "1", "2.0", "KiB", "-"],
        ["9", "1", "2.0", "KiB", "accuracy=0.9877"],
    ]
    place = storage.where("checkpoints/1/9")
    assert rows[1].endswith(place)
    newest, best = json.loads(shell("checkpoints", "digits", "--json").out)
    assert best == {
        "attempt": 1, "step": 9, "bytes": 2048, "place": place,
        "metrics": {"accuracy": 0.98765}, "side": {"lr": 0.1}, "hosts": 2,
    }  # fmt: skip
    assert newest.keys() == {"attempt", "step", "bytes", "place"}


def test_that_there_is_none_is_said(shell: Shell, jobs: Any) -> None:
    jobs.asked("digits")
    done = shell("checkpoints", "digits")
    assert (done.out, done.err) == ("", "digits has no whole checkpoint.\n")


@pytest.mark.parametrize(
    ("count", "written"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 2**40, "3.0 TiB"), (2**52, "4096.0 TiB")],
)
def test_sizes_are_written_as_people_read_them(count: int, written: str) -> None:
    assert size(count) == written
