"""Which candidate is to be trained: one that was left behind, a new one, or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prefect_tpu.infra import content, layout, seals, start_points
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import JobResult, Program, SliceJob
from prefect_tpu.infra.models import beginning
from prefect_tpu.infra.models.beginning import Wish, begin, close, find, job_is, unchanged
from prefect_tpu.infra.models.records import Became, Candidate, Version
from prefect_tpu.infra.models.registry import Registry
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.policy.retraining import DAY_SECONDS, JobIs
from prefect_tpu.infra.storage import LocalStorage, Storage, open_storage

NOW = 1_000.0 * DAY_SECONDS
POINT = RestorePoint(attempt=1, step=3)
WEIGHTS = f"{seals.step_folder(POINT)}/weights"
JOB = SliceJob(name="m-1", program=Program(kind="command", target="true"), accelerators=("cpu",))


@pytest.fixture
def wish(tmp_path: Path) -> Wish:
    for name in ("numbers", "held-out"):
        (tmp_path / name).write_text(name)
    return Wish(
        model="m", output=str(tmp_path / "jobs"), data={"numbers": str(tmp_path / "numbers")},
        held_out={"numbers": str(tmp_path / "held-out")},
    )  # fmt: skip


def begun(wish: Wish, now: float = NOW) -> Candidate | None:
    return begin(Registry(wish.output, wish.model), wish, find(wish), now)


def write_job(wish: Wish, state: str | None, name: str = "m-1") -> LocalStorage:
    storage = LocalStorage(Path(wish.output, name))
    storage.put(layout.JOB, replace(JOB, name=name).to_json())
    if state is not None:
        result = JobResult(job=name, state=state, attempts=(), output=storage.url, value=None, failure=None)
        beginning.history.write_result(storage, result)
    return storage


def promote(wish: Wish, candidate: Candidate, checkpoint: str = "") -> None:
    registry = Registry(wish.output, wish.model)
    entry = unchanged(registry.look(), candidate, Became.PROMOTED, "it is better", NOW)
    version = Version(
        number=candidate.number, job=f"{wish.output}/m-{candidate.number}", checkpoint=checkpoint, data={},
        held_out={}, watched={}, code="", config={}, parent=None, metrics={"loss": 1.0},
    )  # fmt: skip
    assert registry.add(replace(entry, champion=candidate.number, promoted_by=entry.number, tried=version))


def test_the_first_candidate(wish: Wish) -> None:
    found = begun(wish)
    assert found is not None
    assert (found.number, found.job, found.reason, found.start_from, found.parent) == (
        1, "m-1", "it was never trained", "", None,
    )  # fmt: skip
    assert found.data.keys() == {"numbers"} and found.data != found.held_out
    staged = open_storage(wish.output).children(layout.DATA_FOLDER)
    assert found.data["numbers"] in staged and found.held_out["numbers"] not in staged
    judged_by = open_storage(beginning.evaluations(wish)).children(layout.DATA_FOLDER)
    assert found.held_out["numbers"] in judged_by


def test_one_that_was_left_behind_is_gone_on_with(wish: Wish) -> None:
    assert begun(wish) == begun(wish, NOW + 5.0)


@pytest.mark.parametrize(
    ("state", "number"), [(None, 1), ("succeeded", 1), ("failed", 2), ("stopped", 2), ("absent", 2)]
)
def test_what_becomes_of_it_when_its_data_changed_since(wish: Wish, state: str | None, number: int) -> None:
    begun(wish)
    if state != "absent":
        write_job(wish, state)
    Path(wish.data["numbers"]).write_text("other numbers")
    found = begun(wish, NOW + 5.0)
    assert found is not None and found.number == number
    history = Registry(wish.output, "m").history()
    assert [(entry.became, entry.candidate) for entry in history] == [(Became.ABANDONED, 1)] * (number - 1)


def test_nothing_calls_for_another_one(wish: Wish) -> None:
    first = begun(wish)
    assert first is not None
    promote(wish, first)
    assert begun(wish) is None
    assert begun(replace(wish, is_forced=True)) is not None


def test_other_data_to_judge_by_calls_for_none(wish: Wish) -> None:
    first = begun(wish)
    assert first is not None
    promote(wish, first)
    Path(wish.held_out["numbers"]).write_text("other numbers")
    assert begun(wish) is None


def write_checkpoint(wish: Wish) -> tuple[str, Storage]:
    """Of the candidate's job: its place, and what `WEIGHTS` lies in."""
    storage = write_job(wish, "succeeded")
    root = start_points.checkpoints_of(storage)
    root.put(WEIGHTS, b"weights")
    seals.seal(root, POINT)
    return f"{storage.url}/checkpoints/1/3", root


def test_it_starts_with_the_champions_weights_where_they_are_whole(wish: Wish) -> None:
    first = begun(wish)
    assert first is not None
    place, weights = write_checkpoint(wish)
    promote(wish, first, place)
    forced = replace(wish, is_forced=True)
    warm = begun(forced)
    assert warm is not None and (warm.start_from, warm.parent) == (place, 1)
    close(Registry(wish.output, "m"), warm, Became.FAILED, "", NOW)
    cold = begun(replace(forced, starts_warm=False))
    assert cold is not None and cold.start_from == ""
    close(Registry(wish.output, "m"), cold, Became.FAILED, "", NOW)
    weights.delete(WEIGHTS)
    damaged = begun(forced)
    assert damaged is not None and damaged.start_from == ""


def test_weights_of_which_a_bit_has_flipped_are_not_started_with(wish: Wish) -> None:
    """A look at their size does not tell."""
    first = begun(wish)
    assert first is not None
    place, weights = write_checkpoint(wish)
    promote(wish, first, place)
    weights.put(WEIGHTS, b"weighty")
    damaged = begun(replace(wish, is_forced=True))
    assert damaged is not None and damaged.start_from == ""


def test_a_job_of_somebody_else_that_is_called_alike_is_passed_by(wish: Wish) -> None:
    for number in (1, 2):
        write_job(wish, None, f"m-{number}")
    found = begun(wish)
    assert found is not None and (found.number, found.job) == (3, "m-3")
    write_job(wish, None, "m-3")  # its own
    assert begun(wish) == found


@pytest.mark.parametrize("which", ["data", "held_out"])
def test_a_candidate_whose_data_was_deleted_is_given_up(wish: Wish, which: str) -> None:
    first = begun(wish)
    assert first is not None
    write_job(wish, "succeeded")
    place = wish.output if which == "data" else beginning.evaluations(wish)
    (sha256,) = getattr(first, which).values()
    Path(getattr(wish, which)["numbers"]).write_text("other numbers")
    assert begun(wish) == first
    LocalStorage(place).delete(content.manifest_name(sha256))
    second = begun(wish)
    assert second is not None and second.number == 2
    ended = Registry(wish.output, "m").entry_of(1)
    assert ended is not None and ended.reason == "what it needs was deleted: numbers"


def test_so_is_one_whose_weights_to_start_with_were(wish: Wish) -> None:
    first = begun(wish)
    assert first is not None
    storage = write_job(wish, "succeeded")
    promote(wish, first, storage.url)
    forced = replace(wish, is_forced=True)
    warm = begun(forced)
    assert warm is not None and warm.start_from == storage.url and begun(forced) == warm
    storage.delete(layout.JOB)
    cold = begun(forced)
    assert cold is not None and (cold.number, cold.start_from) == (3, "")
    ended = Registry(wish.output, "m").entry_of(2)
    assert ended is not None and ended.reason == "what it needs was deleted: the weights to start with"


@pytest.mark.parametrize("max_age", [0.0, -1.0, float("nan"), float("inf")])
def test_an_age_that_no_model_can_have(wish: Wish, max_age: float) -> None:
    with pytest.raises(UsageError, match="max_age_days is .* leave it out for never"):
        replace(wish, max_age=max_age)


@pytest.mark.parametrize(
    ("state", "wanted"),
    [("absent", JobIs.ABSENT), (None, JobIs.OPEN), ("succeeded", JobIs.SUCCEEDED), ("failed", JobIs.FAILED)],
)
def test_how_a_candidates_job_stands(wish: Wish, state: str | None, wanted: JobIs) -> None:
    if state != "absent":
        write_job(wish, state)
    assert job_is(wish.output, "m-1") is wanted


def test_what_is_watched_belongs_to_what_a_candidate_has_seen(tmp_path: Path, wish: Wish) -> None:
    place = tmp_path / "came-in"
    watching = replace(wish, watch=(str(place),))
    with pytest.raises(UsageError, match="Nothing lies at .*came-in"):
        find(watching)
    place.mkdir()
    (place / "a").write_text("a")
    first = begun(watching)
    assert first is not None and first.seen.keys() == {"numbers", str(place)}
    promote(watching, first)
    assert begun(watching) is None
    (place / "a").write_text("b")
    again = begun(watching)
    assert again is not None and again.reason == f"its data changed: {place}"


def test_data_that_is_not_there_is_told(wish: Wish) -> None:
    Path(wish.data["numbers"]).unlink()
    with pytest.raises(UsageError, match="numbers is not there"):
        begun(wish)
    assert Registry(wish.output, "m").look().open is None
