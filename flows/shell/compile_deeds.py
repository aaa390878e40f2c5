"""How is a program checked from a shell? Asked about slice by slice, with a line for each, and then all together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from prefect_tpu.flows.shell.compiler import CompileOptions
from prefect_tpu.flows.shell.exit_status import ExitStatus
from prefect_tpu.flows.shell.named import named_places, named_values
from prefect_tpu.flows.shell.telling import telling
from prefect_tpu.flows.streams import answer
from prefect_tpu.infra.compiler.checking import check
from prefect_tpu.infra.compiler.environment import find_compiler
from prefect_tpu.infra.compiler.question import find_target
from prefect_tpu.infra.compiler.render import Row, amount, crossing, sheet, table
from prefect_tpu.infra.compiler.report import Crosses
from prefect_tpu.infra.compiler.wishes import Wish, broken, candidates, check_fit, read_within
from prefect_tpu.infra.meshes import spelled


def carry_out(options: CompileOptions, *, as_json: bool) -> ExitStatus:
    """Check a program. Raises `UsageError` for words that mean nothing, before anything is run."""
    wish = wish_of(options)
    with telling(is_quiet=as_json) as told:
        rows = tuple(check(wish, find_compiler(told.say), told.begin))
    demands = {row.verdict.accelerator: broken(wish, row.verdict) for row in rows}
    shown = json.dumps([_as_json(row, demands[row.verdict.accelerator]) for row in rows]) if as_json else _shown(rows)
    answer(shown, advice="Run the same command to see it again.")
    for line in (*_notes(wish, rows), *(line for lines in demands.values() for line in lines)):
        told.say(line)
    return ExitStatus.SUCCEEDED if _is_well(wish, rows) and not any(demands.values()) else ExitStatus.FAILED


def _as_json(row: Row, demands: tuple[str, ...]) -> dict[str, Any]:
    ended_by = None if row.ended_by is None else row.ended_by.to_json()
    batch = {"batch_per_chip": row.batch_per_chip, "is_largest": row.is_largest, "ended_by": ended_by}
    return {"verdict": row.verdict.to_json(), **batch, "broken": demands}


def _shown(rows: Sequence[Row]) -> str:
    return sheet(rows[0].verdict) if len(rows) == 1 and rows[0].batch_per_chip is None else table(rows)


def _notes(wish: Wish, rows: Sequence[Row]) -> Iterator[str]:
    """What is no fault, and worth knowing: the network between slices is slow beside that within one."""
    for row in rows:
        if row.ended_by is not None:
            where, why = row.verdict.accelerator, row.ended_by.message
            yield f"note: for {where} a larger {wish.fit} failed by something else than its size: {why}"
        over = crossing(row.verdict, Crosses.SLICES)
        axes = sorted({axis for one in over for axis in one.axes})
        if over and not set(axes) & set(wish.within):
            moved, where = amount(sum(one.bytes for one in over)), f"{row.verdict.slices} × {row.verdict.accelerator}"
            yield f"note: between the slices of {where} each device moves {moved} a step, over {', '.join(axes)}."


def _is_well(wish: Wish, rows: Sequence[Row]) -> bool:
    """Whether each accelerator fits; of all sizes of a generation, one."""
    fitting = {row.verdict.accelerator for row in rows if row.verdict.fits}
    return all(fitting & set(candidates(accelerator)) for accelerator in wish.accelerators)


def wish_of(options: CompileOptions) -> Wish:
    """Raises `UsageError` for whatever is wrong, before a compiler is looked for or fetched."""
    for accelerator in options.accelerator:
        candidates(accelerator)
    params = named_values("--param", options.param or ())
    data = named_places("--data", options.data or ())
    looked_for = {options.fit: 1} if options.fit else {}  # the compiler is asked about many
    check_fit(options.fit, params)
    return Wish(
        target=find_target(options.target, {**looked_for, **params}, options.arguments or (), data),
        accelerators=tuple(options.accelerator),
        slices=options.slices,
        params=params,
        mesh=spelled(options.mesh),
        within=read_within(options.within or ()),
        fit=options.fit,
    )
