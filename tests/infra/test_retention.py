"""Which checkpoints stay: the newest and the best, by what their seals say, whenever whoever prunes is killed."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra import layout, retention, seals
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.retention import Best, Rule, Saved, is_among_best, kept
from prefect_tpu.infra.storage import LocalStorage

LEAST = Best(metric="loss", mode="min", count=2)
RULE = Rule(newest=2, best=LEAST)
LOSSES = (0.5, 0.1, 0.9, 0.4, 0.2, 0.8, 0.7)  # by step; 1 and 4 are the best, 5 and 6 the newest


def at(step: int, attempt: int = 1) -> RestorePoint:
    return RestorePoint(attempt=attempt, step=step)


def write(root: LocalStorage, point: RestorePoint, rule: Rule | None, **metrics: float) -> None:
    for name in ("state/array",):
        root.put(f"{seals.step_folder(point)}/{name}", b"0123456789")
    seals.seal(root, point, **retention.facts(rule, metrics))


def steps(root: LocalStorage) -> list[int]:
    return [saved.point.step for saved in retention.whole(root)]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Rule(), {4, 5, 6}),
        (Rule(newest=1), {6}),
        (RULE, {1, 4, 5, 6}),
        (Rule(newest=1, best=Best(metric="loss", mode="max", count=1)), {2, 6}),
        (Rule(newest=1, best=Best(metric="accuracy", mode="max", count=3)), {6}),
    ],
)
def test_the_newest_and_the_best_stay(rule: Rule, expected: set[int]) -> None:
    whole = [Saved(point=at(step), metrics={"loss": loss}) for step, loss in enumerate(LOSSES)]
    assert {point.step for point in kept(whole[::-1], rule)} == expected


@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.4, math.nan, math.inf]), max_size=12), st.sampled_from(["min", "max"])
)
def test_what_is_saved_for_its_metric_are_the_steps_that_would_stay(values: list[float], mode: str) -> None:
    """Of equal values the first ones; a value that is no number never counts."""
    best, saved = Best(metric="loss", mode=mode, count=2), list[Saved]()
    for step, value in enumerate(values):
        if is_among_best(value, [each.metrics["loss"] for each in saved], best):
            saved.append(Saved(point=at(step), metrics={"loss": value}))
    finite = [(best.order(value), step) for step, value in enumerate(values) if math.isfinite(value)]
    assert kept(saved[::-1], Rule(newest=1, best=best)) - {s.point for s in saved[-1:]} <= {
        at(step) for _, step in sorted(finite)[:2]
    }
    assert {at(step) for _, step in sorted(finite)[:2]} <= kept(saved[::-1], Rule(newest=1, best=best))


@pytest.mark.parametrize("rule", [Rule(), Rule(newest=7), RULE])
def test_a_seal_carries_the_rule_and_the_metrics(tmp_path: Path, rule: Rule) -> None:
    root = LocalStorage(tmp_path)
    write(root, at(3), rule, loss=0.5, worst=math.inf)
    said = seals.said(root, at(3))
    assert said is not None
    assert (retention.rule_of(said), retention.metrics_of(said)) == (rule, {"loss": 0.5})


@pytest.mark.parametrize(
    "said", [{}, {"keeps": 3}, {"keeps": {"newest": 0, "best": None}}, {"keeps": {"newest": 2, "best": {"newer": 1}}}]
)
def test_a_rule_that_is_not_known_is_the_usual_one(said: dict[str, Any]) -> None:
    assert retention.rule_of(said) == Rule() and retention.metrics_of({"metrics": [1]}) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Rule(newest=0),
        lambda: Rule(newest=True),
        lambda: Best(metric="loss", mode="least", count=1),
        lambda: Best(metric="", mode="min", count=1),
        lambda: Best(metric="loss", mode="min", count=0),
    ],
)
def test_what_keeps_nothing_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="1 at least"):
        wrong()


def test_the_newest_one_decides_and_the_one_in_use_stays(tmp_path: Path) -> None:
    root = LocalStorage(tmp_path)
    for step, loss in enumerate(LOSSES):
        write(root, at(step), Rule() if step < 6 else RULE, loss=loss)
    assert retention.prune(root, at(0), lambda: []) == [at(3), at(2)]
    assert steps(root) == [6, 5, 4, 1, 0]


class Died(BaseException):
    """The process is gone."""


class MortalStorage(LocalStorage):
    """A folder whose writer dies at one of its writes; a folder goes file by file."""

    def __init__(self, root: Path, writes: int | None) -> None:
        super().__init__(root)
        self.left, self.writes = writes, 0

    def _live(self) -> None:
        if self.writes == self.left:
            raise Died
        self.writes += 1

    def put(self, name: str, data: bytes) -> None:
        self._live()
        super().put(name, data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        self._live()
        return super().put_if_absent(name, data)

    def delete(self, name: str) -> None:
        self._live()
        super().delete(name)

    def delete_folder(self, folder: str) -> None:
        for name in self.list(folder):
            self.delete(name)
        super().delete_folder(folder)


def train(root: LocalStorage) -> None:
    """What a program outside a job does: a folder of its own, and after each save what is to go goes."""
    number = max(layout.numbered(root.children("")), default=0) + 1
    newest = seals.newest_whole(root)
    assert root.put_if_absent(layout.claim(number), b"{}")
    retention.prune(root, newest, partial(retention.but_the_newest, root))
    for step in range(newest.step + 1 if newest else 0, len(LOSSES)):
        write(root, at(step, number), RULE, loss=LOSSES[step])
        retention.prune(root, newest, partial(retention.but_the_newest, root))


def test_killed_at_every_single_write(tmp_path: Path) -> None:
    """Nothing that counts is lost, and starting again leaves what an undisturbed run leaves."""
    undisturbed = MortalStorage(tmp_path / "undisturbed", None)
    train(undisturbed)
    assert steps(undisturbed) == [6, 5, 4, 1]
    for at_write in range(undisturbed.writes):
        folder = tmp_path / str(at_write)
        with pytest.raises(Died):
            train(MortalStorage(folder, at_write))
        root = LocalStorage(folder)
        before = [saved.point for saved in retention.whole(root)]
        train(root)
        assert set(steps(root)) == {6, 5, 4, 1} | {point.step for point in before[:1]}, at_write  # that was in use
        left = itertools.chain.from_iterable(root.children(str(n)) for n in layout.numbered(root.children("")))
        assert {name.split(".")[0] for name in left} == {"run", *map(str, steps(root))}, f"left at {at_write}"


def test_killed_twice_is_no_worse(tmp_path: Path) -> None:
    """The second death may come in what the first one left to do."""
    for first, second in itertools.product((15, 24, 29), (1, 3, 6)):
        folder = tmp_path / f"{first}-{second}"
        for writes in (first, second):
            newest = seals.newest_whole(LocalStorage(folder))
            with contextlib.suppress(Died):
                train(MortalStorage(folder, writes))
            then = seals.newest_whole(LocalStorage(folder))
            assert newest is None or (then is not None and then.step >= newest.step)
        train(LocalStorage(folder))
        assert {6, 5, 4, 1} <= set(steps(LocalStorage(folder)))
