"""`prefect-tpu models`: which models there are, how each came along, and the way back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import prefect_tpu as tpu
from prefect_tpu.flows.shell.exit_status import ExitStatus
from prefect_tpu.infra import layout
from prefect_tpu.infra.models.beginning import unchanged
from prefect_tpu.infra.models.records import Became, Candidate, Version
from prefect_tpu.infra.models.registry import Registry
from prefect_tpu.infra.storage import open_storage

NOW = 1_700_000_000.0


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Of a model `digits` with two champions and a candidate that is open."""
    registry = Registry(str(tmp_path), "digits")
    for number, accuracy in ((1, 0.5), (2, 0.75)):
        candidate = begin(registry, number)
        entry = unchanged(registry.look(), candidate, Became.PROMOTED, f"its accuracy is {accuracy}", NOW)
        job = f"{tmp_path}/digits-{number}"
        open_storage(job).put(layout.JOB, b"{}")
        version = Version(
            number=number, job=job, checkpoint=job, data={}, held_out={}, watched={}, code="", config={}, parent=None,
            metrics={"accuracy": accuracy},
        )  # fmt: skip
        registry.add(replace(entry, champion=number, promoted_by=entry.number, tried=version))
    begin(registry, 3)
    registry.point()
    return tmp_path


def begin(registry: Registry, number: int) -> Candidate:
    return registry.begin(
        Candidate(
            number=number,
            began=NOW,
            reason="its data changed: digits",
            job=f"digits-{number}",
            data={},
            held_out={},
            watched={},
            start_from="",
            parent=None,
        )  # fmt: skip
    )


def run(prefect_tpu: Callable[..., Any], output: Path, *words: str) -> Any:
    return prefect_tpu("models", *words, "--output", output)


def test_the_models_of_an_output(prefect_tpu: Callable[..., Any], output: Path) -> None:
    lines = run(prefect_tpu, output, "list").out.splitlines()
    assert lines[0].split() == ["MODEL", "CHAMPION", "SINCE", "MEASURED"]
    assert lines[1].split()[:2] == ["digits", "2"] and lines[1].endswith("accuracy 0.75")
    told = json.loads(run(prefect_tpu, output, "list", "--json").out)
    assert [(one["model"], one["champion"]["number"]) for one in told] == [("digits", 2)]


def test_an_output_without_models_is_told(prefect_tpu: Callable[..., Any], tmp_path: Path) -> None:
    ended = run(prefect_tpu, tmp_path, "list")
    assert ended.status == 0 and ended.out == "" and "There are no models in" in ended.err
    assert json.loads(run(prefect_tpu, tmp_path, "list", "--json").out) == []


def test_how_a_model_came_along(prefect_tpu: Callable[..., Any], output: Path) -> None:
    said = run(prefect_tpu, output, "show", "digits").out
    assert said.startswith(f"Champion: version 2 (accuracy 0.75)\nIt lies at {output}/digits-2\n")
    assert "Candidate 3 is not judged yet: its data changed: digits." in said
    assert [line.split()[2:4] for line in said.splitlines()[-2:]] == [["2", "promoted"], ["1", "promoted"]]
    told = json.loads(run(prefect_tpu, output, "show", "digits", "--json", "--newest", "1").out)
    assert told["champion"]["number"] == 2 and told["open"]["number"] == 3
    assert [entry["number"] for entry in told["history"]] == [2]


def test_the_way_back(prefect_tpu: Callable[..., Any], output: Path) -> None:
    said = run(prefect_tpu, output, "rollback", "digits", "--reason", "worse in use").out
    assert said == f"Version 1 is the champion of model 'digits' again: {output}/digits-1\n"
    champion = tpu.champion("digits", output)
    assert (champion.number, champion.metrics) == (1, {"accuracy": 0.5})
    told = json.loads(run(prefect_tpu, output, "rollback", "digits", "--to", "2", "--json").out)
    assert told["champion"]["number"] == 2
    assert [entry.reason for entry in Registry(str(output), "digits").history(2)] == ["by hand", "worse in use"]


def test_a_damaged_model_hides_no_other(prefect_tpu: Callable[..., Any], output: Path) -> None:
    begin(Registry(str(output), "letters"), 1)
    Registry(str(output), "letters").storage.put(layout.MODEL_CHAMPION, b"{")
    listed = run(prefect_tpu, output, "list")
    assert [line.split()[:2] for line in listed.out.splitlines()[1:]] == [["digits", "2"], ["letters", "unreadable"]]
    assert "letters/champion.json is damaged" in listed.err
    told = json.loads(run(prefect_tpu, output, "list", "--json").out)
    assert [one["model"] for one in told] == ["digits", "letters"] and "is damaged" in told[1]["error"]


def test_numbers_of_no_value_and_reasons_of_many_lines(prefect_tpu: Callable[..., Any], output: Path) -> None:
    registry = Registry(str(output), "digits")
    entry = registry.entry(2)
    assert entry.tried is not None
    tried = replace(entry.tried, metrics={"accuracy": float("nan")})
    registry.storage.put(layout.model_entry(2), replace(entry, tried=tried).to_json())
    registry.point()
    assert "version 2 (accuracy nan)" in run(prefect_tpu, output, "show", "digits").out
    raw = run(prefect_tpu, output, "show", "digits", "--json").out
    assert "NaN" not in raw.replace('"NaN"', "") and json.loads(raw)["champion"]["metrics"] == {"accuracy": "NaN"}
    run(prefect_tpu, output, "rollback", "digits", "--reason", "worse\nin use")
    said = run(prefect_tpu, output, "show", "digits").out.splitlines()
    assert said[-3].split()[2:] == ["rolled", "back", "worse", "in", "use", "1"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("show", "letters"), "There is no model 'letters'"),
        (("show", "Letters"), "Model name 'Letters' is not usable"),
        (("rollback", "digits", "--to", "2"), "is its champion already"),
        (("rollback", "digits", "--to", "9"), "was never its champion. These were: 1, 2."),
    ],
)
def test_what_is_not_there_is_told(
    prefect_tpu: Callable[..., Any], output: Path, words: tuple[str, ...], says: str
) -> None:
    ended = run(prefect_tpu, output, *words)
    assert ended.status in (ExitStatus.WRONG_CALL, ExitStatus.NO_SUCH_JOB) and says in ended.err


def test_a_model_without_a_champion(prefect_tpu: Callable[..., Any], tmp_path: Path) -> None:
    begin(Registry(str(tmp_path), "digits"), 1)
    assert "Model 'digits' has no champion yet." in run(prefect_tpu, tmp_path, "show", "digits").out
    assert run(prefect_tpu, tmp_path, "list").out.splitlines()[1].split() == ["digits", "none"]
    with pytest.raises(tpu.NoSuchJob, match="has no champion yet"):
        tpu.champion("digits", tmp_path)
