"""A torn checkpoint is never chosen, and the newest whole one is never deleted."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_tpu.infra import layout, retention, seals
from prefect_tpu.infra.contract import write_json
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.launcher.checkpoints import (
    KEPT,
    furthest,
    is_whole,
    newest_whole,
    prune,
    prune_regions,
    sealed,
)
from prefect_tpu.infra.plan import HostPlan, RestorePoint
from prefect_tpu.infra.storage import LocalStorage

FILES = {"state/array": b"0123456789", "state/meta.json": b"{}", "data": b"x" * 100}


def at(attempt: int, step: int) -> RestorePoint:
    return RestorePoint(attempt=attempt, step=step)


def folder(storage: LocalStorage, point: RestorePoint) -> Path:
    return storage.path(f"{layout.checkpoints(point.attempt)}/{point.step}")


def write(storage: LocalStorage, attempt: int, step: int, *, seal: bool = True) -> RestorePoint:
    point = at(attempt, step)
    for name, data in FILES.items():
        storage.put(f"{layout.checkpoints(attempt)}/{step}/{name}", data)
    if seal:
        content = write_json({"files": {name: len(data) for name, data in FILES.items()}})
        storage.put(layout.checkpoint_seal(attempt, step), content)
    return point


def shorten(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


DAMAGE: dict[str, Callable[[LocalStorage, RestorePoint], object]] = {
    **{
        f"array cut at {size}": lambda s, p, size=size: shorten(folder(s, p) / "state/array", size)  # type: ignore[misc]
        for size in range(10)
    },
    "array grew": lambda s, p: (folder(s, p) / "state/array").write_bytes(b"0" * 11),
    **{f"{name} missing": lambda s, p, name=name: (folder(s, p) / name).unlink() for name in FILES},  # type: ignore[misc]
    "folder missing": lambda s, p: shutil.rmtree(folder(s, p)),
    "no seal": lambda s, p: s.delete(layout.checkpoint_seal(p.attempt, p.step)),
    **{
        f"seal cut at {size}": lambda s, p, size=size: shorten(  # type: ignore[misc]
            s.path(layout.checkpoint_seal(p.attempt, p.step)), size
        )
        for size in (0, 1, 20, 40)
    },
    **{
        f"seal is {raw!r}": lambda s, p, raw=raw: s.put(layout.checkpoint_seal(p.attempt, p.step), raw)  # type: ignore[misc]
        for raw in (b"[]", b"{}", b'{"version":1}', b'{"version":1,"files":[]}', b'{"version":1,"files":{}}')
    },
    "seal is of a newer version": lambda s, p: s.put(
        layout.checkpoint_seal(p.attempt, p.step), b'{"version":99,"files":{"data":100}}'
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_torn_checkpoint_is_never_chosen(storage: LocalStorage, damage: str) -> None:
    older, torn = write(storage, 1, 10), write(storage, 2, 20)
    assert newest_whole(storage, below=3) == torn
    DAMAGE[damage](storage, torn)
    assert not is_whole(storage, torn)
    assert newest_whole(storage, below=3) == older
    DAMAGE[damage](storage, older)
    assert newest_whole(storage, below=3) is None


def test_the_newest_is_the_highest_step_of_the_attempts_below(storage: LocalStorage) -> None:
    assert newest_whole(storage, below=9) is None
    for attempt, step in ((1, 30), (2, 9), (2, 30), (3, 100), (10, 40)):
        write(storage, attempt, step)
    assert sealed(storage) == [at(3, 100), at(10, 40), at(2, 30), at(1, 30), at(2, 9)]
    assert newest_whole(storage, below=3) == at(2, 30)
    assert newest_whole(storage, below=2) == at(1, 30)
    assert newest_whole(storage, below=1) is None
    assert newest_whole(storage, below=11) == at(3, 100)


def test_other_files_beside_the_checkpoints_are_no_seals(storage: LocalStorage) -> None:
    for name in ("1/a.sealed.json", "x/1.sealed.json", "1/2.sealed.json.bak", "1/3/4.sealed.json"):
        storage.put(f"checkpoints/{name}", b"{}")
    assert sealed(storage) == []


def test_old_ones_go_with_their_seals(storage: LocalStorage) -> None:
    points = [write(storage, 1, step) for step in range(1, 7)]
    assert prune(storage, in_use=points[0]) == [at(1, 3), at(1, 2)]
    assert sealed(storage) == [at(1, 6), at(1, 5), at(1, 4), at(1, 1)]
    assert not folder(storage, at(1, 2)).exists()
    assert all(is_whole(storage, point) for point in sealed(storage))
    assert prune(storage, in_use=points[0]) == []


def test_what_the_program_wants_to_keep_stays(storage: LocalStorage) -> None:
    """The seals say it: how many of the newest, and which are the best."""
    rule = retention.Rule(newest=1, best=retention.Best(metric="loss", mode="min", count=1))
    for step, loss in enumerate((0.9, 0.1, 0.5, 0.3)):
        write(storage, 1, step, seal=False)
        seals.seal(storage.inside(layout.CHECKPOINTS), at(1, step), **retention.facts(rule, {"loss": loss}))
    assert prune(storage, in_use=None) == [at(1, 2), at(1, 0)]
    assert sealed(storage) == [at(1, 3), at(1, 1)]


def test_nothing_goes_while_nothing_is_whole_and_one_being_written_is_left_alone(storage: LocalStorage) -> None:
    torn = write(storage, 1, 1)
    (folder(storage, torn) / "data").unlink()
    assert prune(storage, in_use=None) == []
    for step in range(2, 7):
        write(storage, 2, step)
    unsealed = write(storage, 3, 1, seal=False)
    assert torn in prune(storage, in_use=None)
    assert (folder(storage, unsealed) / "data").exists()


def test_what_ended_attempts_left_without_a_seal_goes(storage: LocalStorage) -> None:
    whole = write(storage, 1, 9)
    cut, live = write(storage, 1, 12, seal=False), write(storage, 2, 5, seal=False)
    half = folder(storage, whole).with_name("15.orbax-checkpoint-tmp-1")
    half.mkdir()
    storage.put(layout.outcome(1), b"{}")
    assert prune(storage, in_use=None) == []
    assert not folder(storage, cut).exists() and not half.exists()
    assert is_whole(storage, whole) and (folder(storage, live) / "data").exists()


def test_what_has_no_seal_stays_while_nothing_is_whole(storage: LocalStorage) -> None:
    cut = write(storage, 1, 12, seal=False)
    storage.put(layout.outcome(1), b"{}")
    assert prune(storage, in_use=None) == []
    assert (folder(storage, cut) / "data").exists()


def test_a_prune_cut_short_leaves_nothing_that_counts_and_the_next_one_goes_on(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(1, 6):
        write(storage, 1, step)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            prune(storage, in_use=None)
    assert sealed(storage) == [at(1, step) for step in (5, 4, 3, 1)]
    assert prune(storage, in_use=None) == [at(1, 1)]


written = st.dictionaries(
    st.tuples(st.integers(1, 3), st.integers(0, 6)), st.sampled_from(["whole", "torn", "unsealed"]), max_size=9
)


@given(written, st.none() | st.tuples(st.integers(1, 3), st.integers(0, 6)))
@settings(max_examples=15)
def test_pruning_keeps_the_newest_whole_ones_and_the_one_in_use(
    given_points: dict[tuple[int, int], str], in_use: tuple[int, int] | None
) -> None:
    with tempfile.TemporaryDirectory() as root:
        storage = LocalStorage(root)
        for (attempt, step), how in given_points.items():
            point = write(storage, attempt, step, seal=how != "unsealed")
            if how == "torn":
                (folder(storage, point) / "data").unlink()
        whole = [point for point in sealed(storage) if is_whole(storage, point)]
        used = at(*in_use) if in_use else None
        prune(storage, in_use=used)
        left = [point for point in sealed(storage) if is_whole(storage, point)]
        assert left[:KEPT] == whole[:KEPT]
        assert newest_whole(storage, below=9) == (whole[0] if whole else None)
        assert used not in whole or used in left
        assert set(left) - set(whole[:KEPT]) <= {used}


def test_a_changed_byte_is_found_and_told(storage: LocalStorage, caplog: pytest.LogCaptureFixture) -> None:
    older, flipped = write(storage, 1, 10), write(storage, 1, 20, seal=False)
    seals.seal(storage.inside(layout.CHECKPOINTS), flipped)
    assert newest_whole(storage, below=2) == flipped and not caplog.messages
    (folder(storage, flipped) / "state/array").write_bytes(b"0123456780")
    assert is_whole(storage, flipped)  # by a look
    assert newest_whole(storage, below=2) == older
    (told,) = caplog.messages
    assert told == (
        f"The checkpoint {folder(storage, flipped)} is passed over. state/array is missing or was changed after it was"
        " sealed."
    )


def of_region(storage: LocalStorage, name: str, run: int, *steps: int) -> None:
    """What one run of a region sealed."""
    root = storage.inside(layout.region_checkpoints(name))
    root.put(layout.claim(run), b"{}")
    for step in steps:
        for file, data in FILES.items():
            root.put(f"{run}/{step}/{file}", data)
        seals.seal(root, at(run, step))


def test_a_flow_has_saved_more_where_any_of_its_regions_has(
    storage: LocalStorage, make_plan: Callable[..., HostPlan]
) -> None:
    flow = make_plan(program=Program(kind="flow", target="python"))
    assert furthest(storage, flow) is None
    of_region(storage, "fit-1", 1, 40, 90)
    assert furthest(storage, flow) == 90
    of_region(storage, "tune-1", 1, 0)
    assert furthest(storage, flow) == 91, "the first step of another region is more than there was"
    of_region(storage, "tune-1", 2, 1)
    of_region(storage, "fit-1", 2, 20)
    assert furthest(storage, flow) == 92, "what is behind what was saved is no more"
    assert furthest(storage, make_plan()) is None


def test_each_region_keeps_its_newest_checkpoints_and_what_it_writes_now(storage: LocalStorage) -> None:
    of_region(storage, "fit-1", 1, *range(KEPT))
    of_region(storage, "fit-1", 2, KEPT, KEPT + 1)
    of_region(storage, "tune-1", 1, 7)
    root = storage.inside(layout.region_checkpoints("fit-1"))
    for run in (1, 2):
        root.put(f"{run}/99/part", b"cut short")
    prune_regions(storage)
    assert [point.step for point in seals.newest_first(root)] == [KEPT + 1, KEPT, KEPT - 1]
    assert root.children("1/99") == [], "nobody will finish it"
    assert root.children("2/99") == ["part"]
    assert root.get(layout.claim(1)) == b"{}", "no later run takes that number"
    assert [p.step for p in seals.newest_first(storage.inside(layout.region_checkpoints("tune-1")))] == [7]
