"""A model's history has one order whoever writes it, and its champion is never half there."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ContractError
from prefect_tpu.infra.errors import NoSuchJob, UsageError
from prefect_tpu.infra.models.beginning import close, unchanged
from prefect_tpu.infra.models.records import Became, Candidate, Entry, Version
from prefect_tpu.infra.models.registry import Registry, find_registry, model_names, roll_back

VERSION = Version(
    number=1, job="/jobs/m-1", checkpoint="/jobs/m-1/checkpoints/1/9", data={"digits": "a"}, held_out={"test": "b"},
    watched={}, code="c", config={"params": {"steps": 10}}, parent=None, metrics={"loss": 0.5},
)  # fmt: skip
CANDIDATE = Candidate(
    number=1, began=1.0, reason="it was never trained", job="m-1", data={"digits": "a"}, held_out={"test": "b"},
    watched={}, start_from="", parent=None,
)  # fmt: skip


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(str(tmp_path), "m")


def promote(registry: Registry, number: int, loss: float = 0.5) -> Entry:
    candidate = registry.begin(replace(CANDIDATE, number=number))
    standing = registry.look()
    version = replace(VERSION, number=number, metrics={"loss": loss})
    entry = unchanged(standing, candidate, Became.PROMOTED, "it is better", 2.0)
    entry = replace(entry, champion=number, promoted_by=entry.number, tried=version)
    assert registry.add(entry)
    registry.point()
    return entry


def test_nothing_is_there_at_first(registry: Registry, tmp_path: Path) -> None:
    standing = registry.look()
    assert (standing.entry, standing.champion, standing.open, standing.judged) == (None, None, None, None)
    assert standing.next_number == registry.next_candidate() == 1
    assert registry.point() is None and registry.champion() is None and model_names(str(tmp_path)) == []
    with pytest.raises(NoSuchJob, match="There is no model 'm' .* It has: none"):
        find_registry(str(tmp_path), "m")


def test_what_is_written_down_comes_back(registry: Registry, tmp_path: Path) -> None:
    entry = promote(registry, 1)
    standing = registry.look()
    assert standing.entry == standing.champion == entry
    assert standing.judged == replace(CANDIDATE, number=1) and standing.open is None
    assert registry.entry_of(1) == entry and registry.history() == [entry]
    champion = registry.champion()
    assert champion is not None and (champion.number, champion.checkpoint) == (1, VERSION.checkpoint)
    assert model_names(str(tmp_path)) == ["m"] and find_registry(str(tmp_path), "m").look() == standing


def test_a_record_counts_for_the_history_as_it_was(registry: Registry) -> None:
    registry.begin(CANDIDATE)
    first = unchanged(registry.look(), CANDIDATE, Became.KEPT, "it was not better", 1.0)
    assert registry.add(first) and not registry.add(replace(first, reason="the same again"))
    assert registry.history() == [first]


def test_many_that_end_one_candidate_write_one_record(registry: Registry) -> None:
    registry.begin(CANDIDATE)
    together = threading.Barrier(8)

    def end(number: int) -> Entry:
        together.wait()
        return close(registry, CANDIDATE, Became.FAILED, f"by {number}", float(number))

    with ThreadPoolExecutor(8) as threads:
        assert len({entry.reason for entry in threads.map(end, range(8))}) == 1
    assert len(registry.history()) == 1


def test_of_many_that_begin_one_number_all_get_the_same(registry: Registry) -> None:
    together = threading.Barrier(8)

    def begin(number: int) -> Candidate:
        together.wait()
        return registry.begin(replace(CANDIDATE, began=float(number)))

    with ThreadPoolExecutor(8) as threads:
        assert len({candidate.began for candidate in threads.map(begin, range(8))}) == 1
    assert registry.look().open is not None


def test_a_candidate_is_open_until_something_becomes_of_it(registry: Registry) -> None:
    registry.begin(CANDIDATE)
    assert registry.look().open == CANDIDATE
    close(registry, CANDIDATE, Became.FAILED, "its program raised", 1.0)
    standing = registry.look()
    assert standing.open is None and standing.judged is None  # what failed was not judged: its data is tried again


def test_a_champion_that_was_not_written_is_mended(registry: Registry) -> None:
    promote(registry, 1)
    pointer = registry.storage.where(layout.MODEL_CHAMPION)
    Path(pointer).unlink()  # as after a kill between the record and it
    champion = registry.point()
    assert champion is not None and champion.number == 1 and registry.champion() == champion


def test_a_slow_writer_does_not_bring_an_older_champion_back(registry: Registry) -> None:
    promote(registry, 1)
    before = registry.champion()
    promote(registry, 2)
    assert before is not None
    registry.storage.put(layout.MODEL_CHAMPION, before.to_json())  # what a slow one writes late
    after = registry.point()
    assert after is not None and after.number == 2 and registry.champion() == after


def test_roll_back_to_the_champion_before_and_to_any_other(registry: Registry) -> None:
    for number in (1, 2, 3):
        promote(registry, number)
    assert roll_back(registry, None, "worse in use", 9.0).number == 2
    assert roll_back(registry, 1, "older still", 9.0).number == 1
    assert roll_back(registry, None, "back", 9.0).number == 2
    newest = registry.history(1)[0]
    assert (newest.became, newest.candidate, newest.champion, newest.promoted_by) == (Became.ROLLED_BACK, None, 2, 2)
    assert registry.look().judged == replace(CANDIDATE, number=3)  # going back makes no data new


@pytest.mark.parametrize(
    ("version", "words"),
    [(2, "is its champion already"), (7, "was never its champion. These were: 1, 2"), (None, None)],
)
def test_what_cannot_be_gone_back_to(registry: Registry, version: int | None, words: str | None) -> None:
    promote(registry, 1)
    if words is None:
        with pytest.raises(UsageError, match="has had no other champion"):
            roll_back(registry, None, "", 1.0)
        return
    promote(registry, 2)
    with pytest.raises(UsageError, match=words):
        roll_back(registry, version, "", 1.0)


@pytest.mark.parametrize("name", ["", "A", "1a", "a" * 13, "a_b", "../a"])
def test_names_that_no_job_could_be_called_after(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="Model name"):
        Registry(str(tmp_path), name)


def test_a_damaged_record_is_told_with_its_place(registry: Registry) -> None:
    promote(registry, 1)
    Path(registry.storage.where(layout.model_entry(1))).write_text("{")
    with pytest.raises(ContractError, match=r"history/1\.json is damaged"):
        registry.look()


def test_what_a_newer_version_added_is_passed_over(registry: Registry) -> None:
    entry = promote(registry, 1)
    path = Path(registry.storage.where(layout.model_entry(1)))
    path.write_text(json.dumps({**json.loads(path.read_text()), "colour": "blue"}))
    assert registry.entry(1) == entry
