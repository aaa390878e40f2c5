"""What do the compiler's text and its counts come to? The figures of a step, put together from its own words."""

from __future__ import annotations

from collections.abc import Mapping

from prefect_tpu.infra.compiler.crossing import Layout, collectives
from prefect_tpu.infra.compiler.exchanges import exchanges
from prefect_tpu.infra.compiler.figures import peak_flops
from prefect_tpu.infra.compiler.hlo import read_program
from prefect_tpu.infra.compiler.report import Cost, Crosses, Memory, Step
from prefect_tpu.infra.compiler.rounds import executions
from prefect_tpu.infra.compiler.work import work


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
    is_between_slices = any(one.crosses is Crosses.SLICES for one in exchanged)
    cost = Cost(
        flops=max(0.0, counted.get("flops", 0.0)),
        bytes_accessed=max(0.0, counted.get("bytes accessed", 0.0)),
        seconds=None if is_between_slices else _seconds(counted),
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


def _seconds(counted: Mapping[str, float]) -> float | None:
    """For what goes between slices the compiler takes a second off each time; nothing can be made of that."""
    seconds = counted.get("optimal_seconds", 0.0)
    return seconds if seconds > 0 else None
