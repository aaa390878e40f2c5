"""Mesh specs: every form says the same, a fitted mesh uses every device, and nothing but `UsageError` is raised."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.meshes import REST, MeshShape, fit_mesh, parse_mesh

names = st.lists(st.from_regex(r"[a-z_][a-z0-9_]{0,7}", fullmatch=True), min_size=1, max_size=4, unique=True)


@st.composite
def shapes(draw: st.DrawFn) -> MeshShape:
    axes = draw(names)
    sizes = draw(st.lists(st.integers(1, 8), min_size=len(axes), max_size=len(axes)))
    return MeshShape(names=tuple(axes), sizes=tuple(sizes))


@pytest.mark.parametrize(
    "spec",
    [
        {"fsdp": 4, "tp": 2},
        '{"fsdp": 4, "tp": 2}',
        "{fsdp: 4, tp: 2}",
        "[[4,2],['fsdp','tp']]",
        '[[4, 2], ["fsdp", "tp"]]',
        "[[4,2],[fsdp,tp]]",
        "((4, 2), ('fsdp', 'tp',),)",
        [[4, 2], ["fsdp", "tp"]],
        ((4, 2), ("fsdp", "tp")),
    ],
)
def test_every_form_says_the_same(spec: object) -> None:
    assert parse_mesh(spec) == MeshShape(names=("fsdp", "tp"), sizes=(4, 2))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("", "cannot be read"),
        ("[[4,2]", "cannot be read"),
        ("16", "cannot be read"),
        ({}, "cannot be read"),
        ([[], []], "cannot be read"),
        ("data", "cannot be read"),
        ([4, 2], "cannot be read"),
        ([[4, 2], ["data"]], "2 sizes and 1 names"),
        ({"data": 0}, "size 0"),
        ({"data": -2}, "size -2"),
        ({"data": True}, "size True"),
        ({"data": 2.0}, "size 2.0"),
        ({"a": -1, "b": -1}, "2 axes of size -1"),
        ([[2, 2], ["a", "a"]], "names an axis twice"),
        ([[2, 2], ["a", 3]], "axis name 3"),
    ],
)
def test_refuses(spec: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_mesh(spec)  # type: ignore[arg-type]


def test_the_rest_goes_to_one_axis() -> None:
    assert fit_mesh(parse_mesh({"data": REST, "tp": 4}), 16).sizes == (4, 4)


@pytest.mark.parametrize(
    ("spec", "devices", "says"),
    [
        ({"data": 4}, 8, "is for 4 devices, the slice has 8: it leaves devices idle. Use data=8"),
        ({"data": 8, "tp": 4}, 16, "is for 32 devices.*more than there are. Use data=4 × tp=4"),
        ({"data": -1, "tp": 3}, 16, "its fixed sizes make 3, which does not divide 16. Use data=16 × tp=1"),
        ({"data": 3, "tp": -1}, 16, "does not divide 16. Use data=16 × tp=1"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_mesh_that_does(spec: dict[str, int], devices: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        fit_mesh(parse_mesh(spec), devices)


@given(shapes())
def test_text_and_objects_agree(shape: MeshShape) -> None:
    table = dict(zip(shape.names, shape.sizes, strict=True))
    bare = f"[[{','.join(map(str, shape.sizes))}],[{','.join(shape.names)}]]"
    assert parse_mesh(table) == parse_mesh(json.dumps(table)) == parse_mesh(bare) == shape


@given(shapes(), st.integers(1, 512))
def test_a_fitted_mesh_uses_every_device(shape: MeshShape, devices: int) -> None:
    try:
        fitted = fit_mesh(shape, devices)
    except UsageError as exc:
        assert math.prod(shape.sizes) != devices
        assert str(devices) in str(exc)
    else:
        assert fitted == shape


@given(shapes(), st.integers(1, 16), st.data())
def test_one_open_axis_is_filled_exactly(shape: MeshShape, rest: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(shape.sizes) - 1))
    whole = tuple(rest if i == at else size for i, size in enumerate(shape.sizes))
    open_shape = MeshShape(names=shape.names, sizes=tuple(REST if i == at else size for i, size in enumerate(whole)))
    assert fit_mesh(open_shape, math.prod(whole)).sizes == whole


@given(st.text(max_size=40))
def test_any_text_is_a_mesh_or_a_usage_error(text: str) -> None:
    try:
        assert parse_mesh(text).names
    except UsageError as exc:
        assert "Mesh" in str(exc)
