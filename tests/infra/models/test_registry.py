"""A model's history has one order whoever writes it, and its champion is never half there."""

from __future__ import annotations

import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from counting import Counting

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ContractError
from prefect_tpu.infra.errors import NoSuchJob, UsageError
from prefect_tpu.infra.models.beginning import close, unchanged
from prefect_tpu.infra.models.going_back import roll_back
from prefect_tpu.infra.models.records import Became, Candidate, Entry, Version
from prefect_tpu.infra.models.registry import Registry, find_registry, model_names
from prefect_tpu.infra.storage import open_storage

VERSION = Version(
    number=1, job="m-1", checkpoint="m-1/checkpoints/1/9", data={"digits": "a"}, held_out={"test": "b"},
    watched={}, code="c", config={"params": {"steps": 10}}, parent=None, metrics={"loss": 0.5},
)  # fmt: skip
CANDIDATE = Candidate(
    number=1, began=1.0, reason="it was never trained", job="m-1", data={"digits": "a"}, held_out={"test": "b"},
    watched={}, start_from="", parent=None,
)  # fmt: skip


@pytest.fixture(params=["disk", "bucket"])
def output(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The folder of all jobs."""
    return str(tmp_path) if request.param == "disk" else f"{request.getfixturevalue('bucket')}/jobs"


@pytest.fixture
def registry(output: str) -> Registry:
    return Registry(output, "m")


def promote(registry: Registry, number: int, loss: float = 0.5) -> Entry:
    """A candidate whose job is there; its model is the job's folder."""
    candidate = registry.begin(replace(CANDIDATE, number=number))
    job = open_storage(registry.output).inside(f"m-{number}")
    job.put(layout.JOB, b"{}")
    standing = registry.look()
    version = replace(VERSION, number=number, job=job.url, checkpoint=job.url, metrics={"loss": loss})
    entry = unchanged(standing, candidate, Became.PROMOTED, "it is better", 2.0)
    entry = replace(entry, champion=number, promoted_by=entry.number, tried=version)
    assert registry.add(entry)
    registry.point()
    return entry


def test_nothing_is_there_at_first(registry: Registry, output: str) -> None:
    standing = registry.look()
    assert (standing.entry, standing.champion, standing.open, standing.judged) == (None, None, None, None)
    assert (standing.next_number, standing.newest) == (1, 0)
    assert registry.point() is None and registry.champion() is None and model_names(output) == []
    with pytest.raises(NoSuchJob, match="There is no model 'm' .* It has: none"):
        find_registry(output, "m")


def test_what_is_written_down_comes_back(registry: Registry, output: str) -> None:
    entry = promote(registry, 1)
    standing = registry.look()
    assert standing.entry == standing.champion == entry
    assert standing.judged == replace(CANDIDATE, number=1) and standing.open is None
    assert registry.entry_of(1) == entry and registry.history() == [entry]
    champion = registry.champion()
    assert champion is not None and (champion.number, champion.checkpoint) == (1, f"{output}/m-1")
    assert model_names(output) == ["m"] and find_registry(output, "m").look() == standing


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
    registry.storage.delete(layout.MODEL_CHAMPION)  # as after a kill between the record and it
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


def test_a_champion_whose_record_was_taken_away_is_none_any_more(registry: Registry) -> None:
    """As our own messages advise where a record is damaged: the next one has its number again."""
    promote(registry, 1)
    promote(registry, 2)
    registry.storage.delete(layout.model_entry(2))
    told = registry.point()
    assert told is not None and told.number == 1 and registry.champion() == told
    promote(registry, 3)
    now = registry.champion()
    assert now is not None and (now.number, now.entry) == (3, 2)


def test_each_record_is_read_once_in_one_look(registry: Registry) -> None:
    promote(registry, 1)
    counting = Counting(registry.storage)
    registry.storage = counting
    registry.look()
    assert max(counting.asked.values()) == 1, counting.asked


def test_models_whose_folder_was_moved_are_found_where_they_are(tmp_path: Path) -> None:
    old, new = Registry(str(tmp_path / "old"), "m"), Registry(str(tmp_path / "new"), "m")
    promote(old, 1)
    checkpoint = "m-1/checkpoints/1/9"
    entry = old.entry(1)
    assert entry.tried is not None
    tried = replace(entry.tried, checkpoint=f"{old.output}/{checkpoint}")
    old.storage.put(layout.model_entry(1), replace(entry, tried=tried).to_json())
    old.point()
    (tmp_path / "old").rename(tmp_path / "new")
    standing, told = new.look(), new.champion()
    assert standing.champion is not None and standing.champion.tried is not None and told is not None
    for found in (standing.champion.tried, told):
        assert (found.job, found.checkpoint) == (f"{new.output}/m-1", f"{new.output}/{checkpoint}")
    new.point()
    assert str(tmp_path / "new").encode() in (new.storage.get(layout.MODEL_CHAMPION) or b"")


def test_numbers_of_no_value_are_strict_json_on_the_disk_and_numbers_again(registry: Registry) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    entry = promote(registry, 1, math.nan)
    assert entry.tried is not None
    tried = replace(entry.tried, metrics={"loss": -math.inf, "auc": math.nan})
    registry.storage.put(layout.model_entry(1), replace(entry, tried=tried, rival={"loss": math.inf}).to_json())
    champion, again = registry.point(), registry.entry(1)
    assert champion is not None and champion.metrics["loss"] == -math.inf and math.isnan(champion.metrics["auc"])
    assert again.tried is not None and again.tried.metrics["loss"] == -math.inf and again.rival == {"loss": math.inf}
    for name in (layout.model_entry(1), layout.MODEL_CHAMPION):
        json.loads(registry.storage.get(name) or b"", parse_constant=refuse)


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


def test_a_champion_says_since_when_it_is_that_now(registry: Registry) -> None:
    for number in (1, 2):
        promote(registry, number)
    assert roll_back(registry, 1, "worse in use", 7.0).since == 7.0
    kept = unchanged(registry.look(), registry.begin(replace(CANDIDATE, number=3)), Became.KEPT, "no better", 8.0)
    assert registry.add(kept)
    registry.storage.delete(layout.MODEL_CHAMPION)
    for _ in ("from the history alone", "from what was said before"):
        champion = registry.point()
        assert champion is not None and (champion.number, champion.since) == (1, 7.0)
    assert roll_back(registry, 2, "better after all", 9.0).since == 9.0


def test_what_an_older_version_said_of_a_champion_is_not_believed(registry: Registry) -> None:
    """It said since when a version was first champion, also after somebody had gone back to it."""
    for number in (1, 2):
        promote(registry, number)
    roll_back(registry, 1, "worse in use", 7.0)
    told = json.loads(registry.storage.get(layout.MODEL_CHAMPION) or b"")
    assert told.pop("made_by") == 3
    registry.storage.put(layout.MODEL_CHAMPION, json.dumps({**told, "since": 1.0}).encode())
    champion = registry.champion()
    assert champion is not None and (champion.number, champion.since, champion.made_by) == (1, 7.0, 3)
    assert registry.point() == champion, "whoever changes something mends it"
    assert b'"made_by"' in (registry.storage.get(layout.MODEL_CHAMPION) or b"")


def test_it_is_where_the_record_that_would_tell_better_is_damaged(registry: Registry) -> None:
    promote(registry, 1)
    told = json.loads(registry.storage.get(layout.MODEL_CHAMPION) or b"")
    del told["made_by"]
    registry.storage.put(layout.MODEL_CHAMPION, json.dumps({**told, "since": 5.0}).encode())
    registry.storage.put(layout.model_entry(1), b"{")
    champion = registry.champion()
    assert champion is not None and (champion.number, champion.since) == (1, 5.0)


def test_weights_that_are_gone_are_not_gone_back_to(registry: Registry, output: str) -> None:
    promote(registry, 1)
    promote(registry, 2)
    open_storage(output).delete(f"m-1/{layout.JOB}")
    with pytest.raises(UsageError, match="Version 1 of model 'm' cannot be gone back to: its weights are .*m-1"):
        roll_back(registry, None, "", 1.0)
    assert len(registry.history()) == 2


def test_a_way_back_that_was_cut_short_is_finished_by_going_again(registry: Registry) -> None:
    promote(registry, 1)
    promote(registry, 2)
    before = registry.storage.get(layout.MODEL_CHAMPION) or b""
    roll_back(registry, 1, "worse in use", 9.0)
    registry.storage.put(layout.MODEL_CHAMPION, before)  # as after a kill between the record and it
    with pytest.raises(UsageError, match="is its champion already"):
        roll_back(registry, 1, "worse in use", 9.0)
    champion = registry.champion()
    assert champion is not None and champion.number == 1


@pytest.mark.parametrize("name", ["", "A", "1a", "a" * 13, "a_b", "../a", "a/b"])
def test_names_that_no_job_could_be_called_after(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="Model name"):
        Registry(str(tmp_path), name)


def test_a_damaged_record_is_told_with_its_place(registry: Registry) -> None:
    promote(registry, 1)
    registry.storage.put(layout.model_entry(1), b"{")
    with pytest.raises(ContractError, match=r"history/1\.json is damaged"):
        registry.look()


@pytest.mark.parametrize("name", [layout.model_entry(1), layout.model_candidate(1), layout.MODEL_CHAMPION])
def test_what_a_newer_version_wrote_is_neither_read_nor_replaced(registry: Registry, name: str) -> None:
    promote(registry, 1)
    newer = json.dumps({**json.loads(registry.storage.get(name) or b""), "version": 2}).encode()
    registry.storage.put(name, newer)
    with pytest.raises(ContractError, match="was written by a newer prefect-tpu .* Upgrade"):
        registry.point()
    assert registry.storage.get(name) == newer


def test_what_a_newer_version_added_is_passed_over(registry: Registry) -> None:
    entry = promote(registry, 1)
    raw = json.loads(registry.storage.get(layout.model_entry(1)) or b"")
    registry.storage.put(layout.model_entry(1), json.dumps({**raw, "colour": "blue"}).encode())
    assert registry.entry(1) == entry
