"""Job folders that were damaged, written by a newer release or asked for differently: told once, left as they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored import NAME, begun, ended, under_way

from prefect_tpu.infra import layout
from prefect_tpu.infra.storage import LocalStorage

RUN = ("run", "train.py:main", "--name", NAME)
Damage = Callable[[bytes], bytes]


def half(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


def nothing(raw: bytes) -> bytes:
    return b""


def noise(raw: bytes) -> bytes:
    return b"\xff\x00\xfe" * 30


def newer(raw: bytes) -> bytes:
    return json.dumps({**json.loads(raw), "version": 2}).encode()


def a_list(raw: bytes) -> bytes:
    return b"[1, 2]"


def without_fields(raw: bytes) -> bytes:
    return b'{"version": 1}'


DAMAGED = "is damaged: "
NEWER = "was written by a newer prefect-tpu (record version 2, this one reads up to 1). Upgrade prefect-tpu here."
LACKS = "lacks or mistypes a field"
NONE_OF_OURS = "is not a record of prefect-tpu"

# how the folder was left, which file is damaged, how, and what is said of it
CASES: dict[str, tuple[Callable[[Path], LocalStorage], str, Damage, str]] = {
    "job.json cut in half": (begun, layout.JOB, half, DAMAGED),
    "job.json empty": (begun, layout.JOB, nothing, DAMAGED),
    "job.json overwritten": (begun, layout.JOB, noise, DAMAGED),
    "job.json of a newer release": (begun, layout.JOB, newer, NEWER),
    "job.json is something else": (begun, layout.JOB, a_list, NONE_OF_OURS),
    "job.json without fields": (begun, layout.JOB, without_fields, LACKS),
    "plan cut in half": (under_way, layout.plan(1), half, DAMAGED),
    "plan of a newer release": (under_way, layout.plan(1), newer, NEWER),
    "plan without fields": (under_way, layout.plan(1), without_fields, LACKS),
    "result cut in half": (lambda o: ended(o, "succeeded"), layout.RESULT, half, DAMAGED),
    "result overwritten": (lambda o: ended(o, "failed"), layout.RESULT, noise, DAMAGED),
    "result of a newer release": (lambda o: ended(o, "failed"), layout.RESULT, newer, NEWER),
    "result without fields": (lambda o: ended(o, "succeeded"), layout.RESULT, without_fields, LACKS),
    "outcome cut in half": (lambda o: without_end(o, "failed"), layout.outcome(1), half, DAMAGED),
    "outcome of a newer release": (lambda o: without_end(o, "failed"), layout.outcome(1), newer, NEWER),
    "record cut in half": (lambda o: without_end(o, "succeeded"), layout.record(1, 0), half, DAMAGED),
    "record of a newer release": (lambda o: without_end(o, "succeeded"), layout.record(1, 0), newer, NEWER),
}


def without_end(output: Path, state: str) -> LocalStorage:
    """Its driver was killed between the attempt's outcome and the job's end."""
    storage = ended(output, state)
    storage.delete(layout.RESULT)
    return storage


@pytest.mark.parametrize("case", CASES)
def test_damage_is_told_with_its_file_and_left_as_it_is(shell: Any, place: Any, case: str) -> None:
    lay_down, name, damage, says = CASES[case]
    storage = lay_down(place.output)
    damaged = damage(storage.get(name) or b"")
    storage.put(name, damaged)
    before = place.seen()
    answer = shell(*RUN)
    assert answer.status == 3 and answer.out == "", answer
    (line,) = (line for line in answer.err.splitlines() if line.startswith("prefect-tpu: "))
    assert line.count(says) == 1 and line.endswith(f"The file is {storage.url}/{name}."), line
    assert "Traceback" not in answer.err and answer.err.count(says) == 1
    assert storage.get(name) == damaged
    assert place.seen() - before <= {"data-home", "data-home/prefect-tpu"}


def edit(place: Any) -> None:
    (place.folder / "train.py").write_text("def main(steps: int = 2): pass\n")


def edit_data(place: Any) -> None:
    (place.folder / "table.csv").write_text("3,4\n")


CONFLICTS: dict[str, tuple[Callable[[Any], None], tuple[str, ...], str]] = {
    "other code": (edit, (), "the program's code changed"),
    "other parameters": (lambda p: None, ("-p", "steps=7"), "params 'steps' was not there and is 7"),
    "other program": (lambda p: None, ("nothing.py:main",), 'program was "train.py:main" and is "nothing.py:main"'),
    "more data": (lambda p: None, ("--data", "more=a-file"), "data 'more' changed"),
    "other data": (edit_data, (), "data 'table' changed"),
    "other times of a job that has not ended": (
        lambda p: None,
        ("--checkpoint-every", "60"),
        "checkpoint_every was 600.0 and is 60.0. It has not ended",
    ),
    "other accelerator of a job that has not ended": (
        lambda p: None,
        ("-a", "v6e-4"),
        'accelerators was ["cpu"] and is ["v6e-4"]. It has not ended',
    ),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_a_name_that_is_taken_is_refused_with_what_differs(shell: Any, place: Any, case: str) -> None:
    change, words, says = CONFLICTS[case]
    storage = begun(place.output, data={"table": "table.csv"})
    change(place)
    before = place.seen(), storage.get(layout.JOB)
    program = [] if words and words[0].endswith(":main") else ["train.py:main"]
    answer = shell("run", *program, *words, "--name", NAME, "--data", "table=table.csv")
    assert (answer.status, answer.out) == (2, ""), answer
    (line,) = answer.err.splitlines()
    assert line.startswith(f"prefect-tpu: Job {NAME!r} exists and was asked for differently: ")
    assert line.count(says) == 1, line
    left = {name for name in place.seen() - before[0] if not name.startswith("jobs/.data")}
    assert (left, storage.get(layout.JOB)) == (set(), before[1])


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\xff", b"[]", b'{"token": 1}', b'{"token":"a","host":1,"pid":"x","born":0}']
)
def test_a_damaged_lease_is_as_good_as_none(shell: Any, place: Any, raw: bytes) -> None:
    storage = ended(place.output, "succeeded")
    storage.put(layout.LEASE, raw)
    answer = shell(*RUN)
    assert answer.status == 0, answer
    assert storage.get(layout.LEASE) is None
