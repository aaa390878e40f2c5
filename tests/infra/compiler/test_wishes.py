"""Which slices a word stands for, and which demands a verdict breaks."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.compiler.question import Target
from prefect_tpu.infra.compiler.report import AxisPlace, Collective, Cost, Crosses, Memory, Step, Verdict
from prefect_tpu.infra.compiler.wishes import Wish, broken, candidates, check_fit, first_of, question, read_within
from prefect_tpu.infra.errors import UsageError

TARGET = Target(kind="file", place="/model.py", function="main", work="/")
MEMORY = Memory(arguments=1, outputs=1, aliased=1, temporaries=1, code=1, total=4, available=9)


def wish(**within: str) -> Wish:
    return Wish(target=TARGET, accelerators=("v6e-16",), params={"batch": 8, "width": 4}, within=within)


def verdict(crosses: Crosses, *axes: str, slices: int = 1) -> Verdict:
    """Of a mesh data × tp, where tp crosses so much and one collective goes over these axes."""
    over = (Collective(kind="all-reduce", axes=axes, count=1, bytes=3 * 2**20, crosses=crosses),) if axes else ()
    return Verdict(
        accelerator="v6e-16",
        slices=slices,
        chips=16 * slices,
        devices=16 * slices,
        hosts=4 * slices,
        mesh=(("data", 2 * slices), ("tp", 8)),
        axes=(
            AxisPlace(name="data", size=2 * slices, crosses=Crosses.SLICES),
            AxisPlace(name="tp", size=8, crosses=crosses),
        ),
        step=Step(
            memory=MEMORY,
            cost=Cost(flops=1, bytes_accessed=1, seconds=None),
            flops=1,
            estimated_seconds=None,
            bound_seconds=1,
            collectives=over,
        ),
        problem=None,
        compile_seconds=1,
        versions={},
    )


def test_a_name_stands_for_itself_and_a_star_for_all_sizes() -> None:
    assert candidates("V6E-16") == ("v6e-16",)
    sizes = candidates("v5p-*")
    assert sizes[:3] == ("v5p-8", "v5p-16", "v5p-32")
    assert candidates("v6e-*")[0] == "v6e-1"


@pytest.mark.parametrize(
    ("accelerator", "why"),
    [
        ("v4-32", "megacore"),
        ("tpu7-32", "does not know it yet"),
        ("v3-32", "that old"),
        ("h100x8", "no TPU"),
        ("cpu", "no TPU"),
        ("v4-*", "no sizes that can be checked"),
        ("v6e-17", "v6e-16"),
    ],
)
def test_what_the_compiler_cannot_be_asked_about_is_refused(accelerator: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        candidates(accelerator)


def test_a_question_has_the_wish_and_what_it_is_about() -> None:
    asked = question(wish(), "v6e-16", batch=32)
    assert asked.params == {"batch": 32, "width": 4}


@pytest.mark.parametrize(("given", "slices", "first"), [(None, 1, 1), (64, 1, 4), (70, 1, 4), (8, 1, 1), (64, 2, 2)])
def test_a_search_begins_with_what_was_given(given: int | None, slices: int, first: int) -> None:
    params = {} if given is None else {"batch": given}
    asked = Wish(target=TARGET, accelerators=("v6e-16",), slices=slices, params=params, fit="batch")
    assert first_of(asked, "v6e-16") == first


@pytest.mark.parametrize("given", [0, -8, 1.5, "64", True, None])
def test_what_is_no_batch_is_refused(given: object) -> None:
    with pytest.raises(UsageError, match="is no batch: give a whole number"):
        check_fit("batch", {"batch": given})
    check_fit("batch", {"batch": 64, "rate": given})


def test_within() -> None:
    assert read_within(["tp=host", "fsdp=slice"]) == {"tp": "host", "fsdp": "slice"}
    for wrong in ("tp", "tp=chip", "=host"):
        with pytest.raises(UsageError, match="AXIS=host"):
            read_within([wrong])


def test_a_demand_that_is_kept() -> None:
    assert broken(wish(tp="host"), verdict(Crosses.NONE, "tp")) == ()
    assert broken(wish(tp="slice"), verdict(Crosses.HOSTS, "tp")) == ()


def test_a_demand_that_is_broken_says_which_how_much_and_what_to_do() -> None:
    (line,) = broken(wish(tp="host"), verdict(Crosses.HOSTS, "data", "tp"))
    assert "'tp' of size 8" in line
    assert "3.0 MiB" in line
    assert "A host has 4 devices" in line
    (line,) = broken(wish(tp="slice"), verdict(Crosses.SLICES, "tp", slices=2))
    assert "crosses slices" in line
    assert "2 slices" in line


def test_an_axis_that_nothing_goes_over_may_lie_anywhere() -> None:
    assert broken(wish(tp="host"), verdict(Crosses.HOSTS)) == ()
    assert broken(wish(tp="host"), verdict(Crosses.HOSTS, "data")) == ()


def test_an_axis_that_the_mesh_has_not_got_is_named() -> None:
    (line,) = broken(wish(model="host"), verdict(Crosses.NONE))
    assert "'model'" in line
    assert "data, tp" in line
