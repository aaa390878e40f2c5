"""A checkpoint that does not fit is told leaf by leaf; what comes from it is named as people name it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training.fitting import SHOWN, Leaf, check_chosen, chooser, losses, misfits, shortened


def leaf(dtype: Any, *shape: int) -> Leaf:
    return Leaf(shape=shape, dtype=np.dtype(dtype))


STORED = {("params", "w"): leaf("float32", 4, 2), ("params", "b"): leaf("float32", 2), ("step",): leaf("int64")}
NAMES = list(STORED)


def test_the_same_fits() -> None:
    assert misfits(STORED, STORED, all_of_it=True) == [] == losses(STORED, STORED)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({("params", "w"): leaf("float32", 8, 2)}, "params/w: the checkpoint has float32[4,2], the state float32[8,2]"),
        ({("new",): leaf("float32", 1)}, "new: the state has float32[1], the checkpoint nothing"),
        ({("step",): leaf("float32")}, None),
        (
            {("params", "b"): leaf("int32", 2)},
            "params/b: the checkpoint has float32[2], which does not become int32[2]",
        ),
        ({("params", "b"): leaf("float32")}, "params/b: the checkpoint has float32[2], the state float32[]"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[Any, Leaf], expected: str | None) -> None:
    assert misfits(STORED, {**STORED, **changes}, all_of_it=True) == ([] if expected is None else [expected])


def test_what_nobody_wants_is_a_misfit_where_all_is_wanted() -> None:
    wanted = {("step",): STORED[("step",)]}
    assert misfits(STORED, wanted, all_of_it=False) == []
    assert misfits(STORED, wanted, all_of_it=True) == [
        "params/w: the checkpoint has float32[4,2], the state nothing",
        "params/b: the checkpoint has float32[2], the state nothing",
    ]


@pytest.mark.parametrize(
    ("have", "want", "loses"),
    [
        ("float32", ml_dtypes.bfloat16, True),
        (ml_dtypes.bfloat16, "float32", False),
        ("int64", "int32", True),
        ("int32", "float32", True),
        ("bool", "int32", False),
    ],
)
def test_a_type_that_rounds_is_told(have: Any, want: Any, loses: bool) -> None:
    found, wanted = {("w",): leaf(have, 3)}, {("w",): leaf(want, 3)}
    assert misfits(found, wanted, all_of_it=True) == []
    assert losses(found, wanted) == ([f"w: {np.dtype(have)} becomes {np.dtype(want)}"] if loses else [])


@pytest.mark.parametrize(("have", "want"), [("float8_e8m0fnu", "float32"), ("bfloat16", "float8_e8m0fnu")])
def test_a_scale_becomes_no_other_type_nor_another_type_a_scale(have: str, want: str) -> None:
    """TensorStore would make 2**64 of 1."""
    found, wanted = ({("w",): leaf(getattr(ml_dtypes, name, name), 3)} for name in (have, want))
    assert misfits(found, wanted, all_of_it=True) == [
        f"w: the checkpoint has {have}[3], which does not become {want}[3]"
    ]
    assert misfits(found, found, all_of_it=True) == []


@pytest.mark.parametrize("only", [3, ["params", 3], [None]])
def test_what_is_no_name_is_refused(only: Any) -> None:
    with pytest.raises(UsageError, match="give the name of a leaf, a list of names, or a function of a name"):
        chooser(only)


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (None, NAMES),
        ("params", NAMES[:2]),
        ("params/w", NAMES[:1]),
        ("/params/", NAMES[:2]),
        ("param", []),
        (["step", "params/b"], NAMES[1:]),
        (lambda name: name.endswith("w"), NAMES[:1]),
    ],
)
def test_leaves_are_chosen_by_name_by_what_is_above_or_by_a_function(only: Any, expected: Any) -> None:
    assert [path for path in NAMES if chooser(only)(path)] == expected


@pytest.mark.parametrize(
    ("only", "said"),
    [
        ("param", "only='param' names no leaf of the state. It has params/w, params/b, step."),
        (["params", "steps"], "'steps' of only names no leaf"),
        ([], "only=\\[\\] names no leaf"),
        (lambda name: False, "names no leaf of the state"),
    ],
)
def test_a_name_of_nothing_is_refused(only: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_chosen([path for path in NAMES if chooser(only)(path)], NAMES, only)


def test_a_long_list_is_cut_and_says_so() -> None:
    assert shortened(["a", "b"]) == "a; b"
    assert shortened([str(number) for number in range(SHOWN + 3)]).endswith("7; and 3 more")
