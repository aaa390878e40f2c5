"""Where else a PyTorch program may be: on fewer hosts, in a bucket, with another job's model, outside a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from bare_hosts import free_port
from forked_hosts import ForkedSlice, Forks

from prefect_tpu.infra import layout, retention, seals
from prefect_tpu.infra.storage import LocalStorage, open_on_host

pytestmark = pytest.mark.frameworks

STEPS = 6


@pytest.fixture(scope="module")
def trained(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ForkedSlice, dict[str, Any]]]:
    """A job of two hosts that has ended, and what its leader returned."""
    made = ForkedSlice(tmp_path_factory.mktemp("trained"), forks)
    yield made, made.start(made.plan(2), "ddp", steps=STEPS).values()[0]
    made.end()


def test_one_host_goes_on_where_two_were(trained: tuple[ForkedSlice, dict[str, Any]]) -> None:
    slice_, whole = trained
    (value,) = slice_.start(slice_.plan(1, restore=slice_.newest()), "started_from").values()
    assert value == {
        "start": STEPS, "restored": STEPS - 1, "digest": whole["digest"], "first is as given": False, "steps": STEPS,
    }  # fmt: skip


def test_what_does_not_fit_is_refused_by_name(trained: tuple[ForkedSlice, dict[str, Any]]) -> None:
    slice_, _ = trained
    for outcome in slice_.start(slice_.plan(2, restore=slice_.newest()), "started_from", width=6).outcomes():
        assert outcome["error"] == "UsageError"
        assert (
            "model.0.weight: the checkpoint has a tensor of [8, 4], the program a tensor of [6, 4]"
            in outcome["message"]
        )


def test_another_job_s_model_is_taken_whole_or_in_part(
    trained: tuple[ForkedSlice, dict[str, Any]], forks: Forks, slice_: ForkedSlice
) -> None:
    other, whole = trained
    (value,) = slice_.start(slice_.plan(1, start_from=str(other.output)), "started_from").values()
    assert (value["start"], value["restored"], value["digest"]) == (0, STEPS - 1, whole["digest"])
    plan = slice_.plan(1, start_from=str(other.output))
    (part,) = slice_.start(plan, "started_from", part="3").values()
    assert part["first is as given"] and part["digest"] != whole["digest"] and part["steps"] == 0


@pytest.mark.parametrize("case", ["ddp", "trained"])
def test_checkpoints_lie_in_a_bucket(case: str, slice_: ForkedSlice, bucket: str) -> None:
    """Each host brings its own files there, and all of them are whole when the last one has."""
    output = f"{bucket}/job"
    first = slice_.start(slice_.plan(2, output=output), case, steps=STEPS).values()
    root = open_on_host(output).inside(layout.CHECKPOINTS)
    newest = seals.newest_whole(root)
    assert newest is not None and newest.step == (STEPS if case == "trained" else STEPS - 1)
    again = slice_.start(slice_.plan(2, output=output, restore=newest), case, steps=STEPS).values()
    assert [value["digest"] for value in again] == [value["digest"] for value in first]
    assert again[0]["start"] != first[0]["start"]


def test_whatever_a_program_holds_goes_on_as_it_was(slice_: ForkedSlice) -> None:
    """A part without slopes, keys that are numbers, pairs, and dicts that grow."""
    (found,) = slice_.start_outside("odd_ones", directory=str(slice_.folder / "odd")).values()
    for name, (whole, went_on) in found.items():
        assert went_on == whole, name


def test_an_optimizer_of_another_model_is_refused(slice_: ForkedSlice) -> None:
    (outcome,) = slice_.start_outside("strange_optimizer").outcomes()
    assert outcome["error"] == "UsageError" and "4 tensors which are not of the model" in outcome["message"]


@pytest.mark.parametrize(
    ("asked", "measured"),
    [
        ({"eval_strategy": "epoch", "every": 0.001}, {8, 16}),  # each step is due: the last of an epoch waits for it
        (
            {"eval_strategy": "steps", "eval_steps": 6, "every": 1e6},
            {6, 16},
        ),  # 16 as the last one, whatever it comes to
    ],
)
def test_the_best_of_a_trainer_s_evaluations_stays(
    asked: dict[str, Any], measured: set[int], slice_: ForkedSlice
) -> None:
    losses, _ = slice_.start(slice_.plan(2), "evaluated", steps=16, **asked).values()
    whole = retention.whole(LocalStorage(slice_.output / layout.CHECKPOINTS))
    assert {each.point.step for each in whole if each.metrics} == measured
    for each in whole:
        assert each.metrics.get("eval_loss") == (losses[str(each.point.step)] if each.metrics else None)
    worst = max(losses, key=lambda step: losses[step])
    rule = retention.rule_of(seals.said(LocalStorage(slice_.output / layout.CHECKPOINTS), whole[0].point) or {})
    assert {point.step for point in retention.kept(whole, rule)} == {int(worst), 16} and int(worst) == min(measured)


def test_a_trainer_that_never_evaluates_has_no_best(slice_: ForkedSlice) -> None:
    (outcome,) = slice_.start_outside("never_evaluated").outcomes()
    assert outcome["error"] == "UsageError" and "give its TrainingArguments an eval_strategy" in outcome["message"]


def test_a_block_is_for_one_training(slice_: ForkedSlice) -> None:
    """Its steps begin anew, and nobody who calls train() has called a save() that could be told so."""
    (outcome,) = slice_.start_outside("trained_again").outcomes()
    assert outcome["error"] == "UsageError" and "The Trainer came to step 1 after step 3: " in outcome["message"]
    assert "save()" not in outcome["message"]


def test_outside_a_job_torch_s_own_words_count(slice_: ForkedSlice) -> None:
    (alone,) = slice_.start_outside("as_launched").values()
    assert (alone["rank"], alone["sum"], alone["backend"]) == (0, 1, "gloo")
    words = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    hosts = slice_.start_launched("as_launched", [{**words, "RANK": str(rank)} for rank in (0, 1)])
    found = hosts.values()
    assert [(one["rank"], one["sum"], one["backend"]) for one in found] == [(0, 2, "gloo"), (1, 2, "gloo")]
    first, second = ([row for one in found for row in one["epochs"][epoch]] for epoch in (0, 1))
    assert sorted(first) == sorted(second) == list(range(8)) and first != second, "torch's own sampler shares the rows"


def test_who_has_not_met_the_others_is_told_to(slice_: ForkedSlice) -> None:
    (outcome,) = slice_.start(slice_.plan(2), "alone_before_join", only=1).outcomes()
    assert outcome["error"] == "UsageError" and "call prefect_tpu.join(" in outcome["message"]


def test_missing_hosts_are_named(slice_: ForkedSlice) -> None:
    (outcome,) = slice_.start(slice_.plan(2, join_timeout=1.0), "as_launched", only=0).outcomes()
    assert outcome["error"] == "CouldNotJoin" and "of its 2 hosts 1 did not come" in outcome["message"]
