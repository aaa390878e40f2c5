"""What do the compiler's text and its counts come to? The figures of a step, put together from its own words."""

from __future__ import annotations

from collections.abc import Mapping

from prefect_tpu.infra.compiler.crossing import Layout, collectives
from prefect_tpu.infra.compiler.exchanges import exchanges
from prefect_tpu.infra.compiler.figures import peak_flops
from prefect_tpu.infra.compiler.hlo import Program, read_program
from prefect_tpu.infra.compiler.report import Cost, Memory, Step
from prefect_tpu.infra.compiler.rounds import executions
from prefect_tpu.infra.compiler.work import work

# What goes between slices, and what a second kind of core does beside (SparseCore, on tpu7x).
_NOT_ESTIMATED = frozenset({"send", "recv", "call-start"})


def step_of(text: str, counted: Mapping[str, float], memory: Memory, layout: Layout, generation: str) -> Step:
    """The figures of a step.

    Args:
        text: what `as_text()` of the compiled step gives.
        counted: what its `cost_analysis()` does.
        memory: of a device.
        layout: the mesh, and where its devices are.
        generation: of the chips, one that `figures` knows.
    """
    program = read_program(text)
    times = executions(program)
    exchanged = collectives(layout, exchanges(program, times), program.partitions)
    done = work(program, times)
    cost = Cost(
        flops=max(0.0, counted.get("flops", 0.0)),
        bytes_accessed=max(0.0, counted.get("bytes accessed", 0.0)),
        seconds=_seconds(program, counted),
    )
    flops = max(0.0, cost.flops + done.further_flops)
    return Step(
        memory=memory,
        cost=cost,
        flops=flops,
        estimated_seconds=None if cost.seconds is None else cost.seconds * done.longer,
        bound_seconds=flops / peak_flops(generation),
        collectives=exchanged,
    )


def _seconds(program: Program, counted: Mapping[str, float]) -> float | None:
    """Nothing can be made of an estimate that seconds are taken off for what the compiler has none for."""
    opcodes = {one.opcode for part in program.computations.values() for one in part.instructions.values()}
    seconds = counted.get("optimal_seconds", 0.0)
    return seconds if seconds > 0 and not opcodes & _NOT_ESTIMATED else None
