"""Mesh specs: every form says the same, a fitted mesh uses every device, and nothing but `UsageError` is raised."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.mesh_text import MeshSpec
from prefect_tpu.infra.meshes import REST, Devices, MeshShape, fit_mesh, parse_mesh, spelled

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
        ("(4,2)", "('fsdp','tp')"),
        ["(4, 2)", "('fsdp', 'tp',)"],
        """["(4,2)", "('fsdp','tp')"]""",
        "(4,2),('fsdp','tp')",
        "fsdp=4,tp=2",
        " fsdp = 4, tp = 2 ",
        "fsdp=4 × tp=2",
        "'fsdp=4,tp=2'",
        '"[[4,2],[fsdp,tp]]"',
        r'"{\"fsdp\": 4, \"tp\": 2}"',
        """ '[[4,2],["fsdp","tp"]]' """,
        {"fsdp": np.int64(4), "tp": np.asarray(2)},
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
        ("data=x", "cannot be read"),
        ("data=2,", "cannot be read"),
        (("(4,2)", "fsdp"), "cannot be read"),
        ("data=2,data=4", "names an axis twice"),
        ('{"data": 2, "data": 4}', "names an axis twice"),
        ({"data": 0}, "size 0"),
        ({"data": -2}, "size -2"),
        ({"data": True}, "size True"),
        ({"data": 2.0}, "size 2.0"),
        ({"data": np.True_}, "size True, a numpy bool"),
        ({"data": np.float64(2)}, "size 2.0"),
        ({"data": 10**10}, "size 10000000000: use whole numbers"),
        ({"data": 10**5000}, r"Mesh \(too long to show\) has the size \(too long to show\)"),
        ({"data": {"tp": 10**5000}}, r"the size \(too long to show\)"),
        ([[2] * 500, [f"a{number}" for number in range(500)]], "has 500 axes: use 16 at most"),
        ({"a": -1, "b": -1}, "2 axes of size -1"),
        ([[2, 2], ["a", "a"]], "names an axis twice"),
        ([[2, 2], ["a", 3]], "axis name 3"),
        ({" ": 2}, "axis name ' '"),
        ('"', "cannot be read"),
        ("''", "cannot be read"),
    ],
)
def test_refuses(spec: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_mesh(spec)  # type: ignore[arg-type]


def test_the_rest_goes_to_one_axis() -> None:
    assert fit_mesh(parse_mesh({"data": REST, "tp": 4}), Devices(count=16)).sizes == (4, 4)


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
        fit_mesh(parse_mesh(spec), Devices(count=devices))


@given(shapes())
def test_text_and_objects_agree(shape: MeshShape) -> None:
    table = dict(zip(shape.names, shape.sizes, strict=True))
    bare = f"[[{','.join(map(str, shape.sizes))}],[{','.join(shape.names)}]]"
    assert parse_mesh(table) == parse_mesh(json.dumps(table)) == parse_mesh(bare) == shape


@given(shapes(), st.integers(1, 512))
def test_a_fitted_mesh_uses_every_device(shape: MeshShape, devices: int) -> None:
    try:
        fitted = fit_mesh(shape, Devices(count=devices))
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
    assert fit_mesh(open_shape, Devices(count=math.prod(whole))).sizes == whole


@given(st.text(max_size=40))
def test_any_text_is_a_mesh_or_a_usage_error(text: str) -> None:
    try:
        assert parse_mesh(text).names
    except UsageError as exc:
        assert "Mesh" in str(exc)


@given(shapes())
def test_one_text_stands_for_all_forms(shape: MeshShape) -> None:
    said = spelled(str(shape))
    assert spelled(said) == said and parse_mesh(said) == shape
    assert spelled("") == spelled(None) == ""


@pytest.mark.parametrize(
    ("spec", "dcn", "over"),
    [
        ("data=-1,tp=4", None, (4, 1)),
        ("pipe=2,data=2,tp=8", None, (1, 1, 4)),
        ("data=-1,tp=4", "data=-1", (4, 1)),
        ("data=2,fsdp=4,tp=4", {"fsdp": 2, "data": 2}, (2, 2, 1)),
        ("data=2,fsdp=4,tp=4", [[2, -1], ["data", "fsdp"]], (2, 2, 1)),
        ("data=2,fsdp=4,tp=4", "data=1,tp=4", (1, 1, 4)),
    ],
)
def test_slices_are_shared_out_among_the_axes(spec: str, dcn: MeshSpec | None, over: tuple[int, ...]) -> None:
    fitted = fit_mesh(parse_mesh(spec), Devices(count=32, slices=4), None if dcn is None else parse_mesh(dcn))
    assert fitted.over_slices == over
    assert math.prod(fitted.within_slice) == 8 and math.prod(over) == 4


def test_one_slice_is_not_shared_out() -> None:
    assert fit_mesh(parse_mesh("data=-1"), Devices(count=8)).over_slices == ()
    assert fit_mesh(parse_mesh("data=-1"), Devices(count=8), parse_mesh("data=-1")).over_slices == (1,)


@pytest.mark.parametrize(
    ("spec", "dcn", "says"),
    [
        ("a=2,b=2,c=3", None, r"cannot go over 4 slices \(4 slices of v6e-8 have 12\): none of its sizes divides by 4"),
        ("a=5", None, r"Mesh a=5 is for 5 devices, 4 slices of v6e-8 have 12: it leaves devices idle"),
        ("a=-1,b=3", "x=4", "dcn has the axis 'x', which mesh a=4 × b=3 does not"),
        ("a=4,b=3", "b=4", "Axis 'b' of mesh a=4 × b=3 cannot go over 4 slices: its size 3 does not divide by that"),
        ("a=4,b=3", "a=2", "dcn a=2 does not share out the slices: there are 4"),
        ("a=4,b=3", "a=3,b=-1", "dcn a=3 × b=-1 does not share out the slices"),
    ],
)
def test_what_slices_cannot_share_is_refused(spec: str, dcn: str | None, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        fit_mesh(parse_mesh(spec), Devices(count=12, slices=4, of="v6e-8"), dcn and parse_mesh(dcn))  # type: ignore[arg-type]


def test_what_cannot_be_read_is_said_by_its_name() -> None:
    with pytest.raises(UsageError, match="dcn {'data': 0} has the size 0"):
        parse_mesh({"data": 0}, "dcn")


@pytest.mark.parametrize(
    ("spec", "devices"),
    [
        ('[[1,1],["fsdp","tp"]]', 1),
        ('[[1],["fsdp"]]', 1),
        ('[[4,1],["fsdp","tp"]]', 4),
        ('[[1,4],["fsdp","tp"]]', 4),
        ("[[2,2],[fsdp,tp]]", 4),
        ("[[8,1],['fsdp','tp']]", 8),
        ("[[8,2],[fsdp,tp]]", 16),
    ],
)
def test_presets_of_tunix_fit_the_devices_that_they_are_for(spec: str, devices: int) -> None:
    fitted = fit_mesh(parse_mesh(spec), Devices(count=devices))
    assert math.prod(fitted.sizes) == devices and fitted.names[0] == "fsdp"
    with pytest.raises(UsageError, match=f"the slice has {devices + 1}"):
        fit_mesh(parse_mesh(spec), Devices(count=devices + 1))
