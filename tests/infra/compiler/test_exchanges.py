"""What devices exchange, over which axes and how far: each kind, in loops, between slices, by a second kind of core."""

from __future__ import annotations

import re

import pytest
from compiler_words import TWO_V6E_16, V6E_16, program

from prefect_tpu.infra.compiler.crossing import Layout, Place, axis_places, collectives
from prefect_tpu.infra.compiler.exchanges import exchanges
from prefect_tpu.infra.compiler.groups import read_groups, read_pairs
from prefect_tpu.infra.compiler.report import AxisPlace, Collective, Crosses
from prefect_tpu.infra.compiler.rounds import executions

TPU7X_16 = Layout(  # eight chips of two devices each on two hosts, in a row
    names=("fsdp", "tp"),
    sizes=(4, 4),
    places=tuple(Place(slice=0, host=position // 8) for position in range(16)),
)


def _found(name: str, layout: Layout) -> tuple[Collective, ...]:
    whole = program(name)
    return collectives(layout, exchanges(whole, executions(whole)), whole.partitions)


def _bytes(found: tuple[Collective, ...]) -> dict[tuple[str, str, str], int]:
    return {(one.kind, ",".join(one.axes), one.crosses.value): one.bytes for one in found}


PART = 256 * 128 * 4  # bytes of what each device has in `every_kind`


@pytest.mark.parametrize(("name", "layout"), [("every_kind", V6E_16), ("tpu7x", TPU7X_16)])
def test_every_kind_over_the_axis_that_the_program_names(name: str, layout: Layout) -> None:
    over_tp = axis_places(layout)[1].crosses.value
    assert _bytes(_found(name, layout)) == {
        ("all-gather", "fsdp", "hosts"): 4 * PART,
        ("all-reduce", "fsdp", "hosts"): PART,
        ("all-reduce", "tp", over_tp): PART,
        ("all-to-all", "fsdp", "hosts"): PART,
        ("collective-permute", "fsdp", "hosts"): PART,
        ("reduce-scatter", "fsdp", "hosts"): PART,
    }


def test_between_slices_goes_what_the_program_sends_there() -> None:
    """Of an axis over two slices the compiler makes a part in each slice, and one between them."""
    found = _found("two_slices", TWO_V6E_16)
    assert {(one.kind, one.axes) for one in found if one.crosses is Crosses.SLICES} == {
        (kind, ("fsdp",)) for kind in ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
    }
    assert found[0].crosses is Crosses.SLICES and found[0].bytes == 2 * PART // 2, "what goes furthest stands first"
    assert {one.axes for one in found if one.crosses is Crosses.NONE} == set()
    assert ("all-reduce", ("tp",)) in {(one.kind, one.axes) for one in found if one.crosses is Crosses.HOSTS}


def test_layers_in_a_loop_exchange_in_every_round() -> None:
    found = {(one.kind, one.axes): (one.count, one.bytes) for one in _found("scanned", V6E_16)}
    weights, rows = 512 * 512 * 2, 64 * 512 * 2  # bytes of a matrix that is gathered over one axis, and of the batch
    assert found["all-gather", ("fsdp",)] == (4 * 8, 4 * 8 * weights)  # both matrices, forwards and backwards
    assert found["reduce-scatter", ("fsdp",)] == (8, 8 * weights)  # fused by the compiler
    assert found["all-reduce", ("tp",)] == (2 * 8, 2 * 8 * rows)


def test_loops_in_loops_exchange_the_more() -> None:
    once = {(one.kind, one.axes): one.bytes for one in _found("scanned", V6E_16)}
    found = {(one.kind, one.axes): one.bytes for one in _found("accumulated", V6E_16)}
    assert found["all-gather", ("fsdp",)] == 4 * once["all-gather", ("fsdp",)]
    assert found["all-reduce", ("tp",)] == 4 * once["all-reduce", ("tp",)]


def test_what_is_in_a_loop_of_unknown_rounds_is_not_exact() -> None:
    found = {(one.kind, one.axes): (one.count, one.is_exact) for one in _found("unknown_rounds", V6E_16)}
    assert found == {("all-reduce", ("fsdp",)): (1, False), ("all-reduce", ("tp",)): (1, False)}


def test_a_program_whose_devices_do_not_need_each_other_exchanges_nothing() -> None:
    assert _found("multiplications", V6E_16) == ()


def test_where_the_axes_of_a_mesh_go() -> None:
    assert axis_places(V6E_16) == (
        AxisPlace(name="fsdp", size=4, crosses=Crosses.HOSTS),
        AxisPlace(name="tp", size=4, crosses=Crosses.HOSTS),
    )
    assert [axis.crosses for axis in axis_places(TWO_V6E_16)] == [Crosses.SLICES, Crosses.HOSTS]
    assert [axis.crosses for axis in axis_places(TPU7X_16)] == [Crosses.HOSTS, Crosses.NONE]


def test_slices_on_an_inner_axis() -> None:
    """The program's numbers count one slice's devices in the order of the mesh, wherever the slices lie in it."""
    places = tuple(Place(slice=column // 2, host=column // 2) for _ in range(2) for column in range(4))
    layout = Layout(names=("a", "b"), sizes=(2, 4), places=places)
    assert layout.by_slice == ((0, 1, 4, 5), (2, 3, 6, 7))
    assert [axis.crosses for axis in axis_places(layout)] == [Crosses.NONE, Crosses.SLICES]


@pytest.mark.parametrize(
    ("written", "groups"),
    [
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{}", ((0, 1, 2, 3),)),
        ("", ((0, 1, 2, 3),)),
        ("[2,2]<=[4]", ((0, 1), (2, 3))),
        ("[2,2]<=[2,2]T(1,0)", ((0, 2), (1, 3))),
        ("[1,4]<=[4]", ((0, 1, 2, 3),)),
        ("[2,4]<=[2,2,2]T(1,0,2)", ((0, 1, 4, 5), (2, 3, 6, 7))),
        ("mesh['a'=2,'b'=2] {'a'}", ((0, 2), (1, 3))),
        ("mesh['a'=2,'b'=2] {'b'}", ((0, 1), (2, 3))),
        ("mesh['a'=2,'b'=2] {'a','b'}", ((0, 1, 2, 3),)),
        ("mesh['a'=4,'b'=1,'c'=2] {'a'}", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['a'=8] {'a':(2)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
        ("mesh['a'=2] {'b'}", None),
        ("whatever comes next year", None),
    ],
)
def test_groups_in_every_way_of_writing_them(written: str, groups: object) -> None:
    assert read_groups(written, 4) == groups


def test_every_way_that_was_recorded_is_read() -> None:
    """The same operation, written in three ways in one program."""
    whole = program("scanned")
    written = {
        found[1][0]
        for part in whole.computations.values()
        for one in part.instructions.values()
        if (found := re.search(r"replica_groups=(.)", one.attributes))
    }
    assert written == {"m", "[", "{"}
    assert all(one.groups is not None for one in exchanges(whole, executions(whole)))


def test_pairs() -> None:
    assert read_pairs("{{0,4},{4,8}}") == ((0, 4), (4, 8))
