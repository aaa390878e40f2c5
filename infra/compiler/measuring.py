"""What does a verdict say? Read from what the compiler made of a step, or from what came in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.compiler.question import Question, Target
from prefect_tpu.infra.compiler.report import Memory, Problem, ProblemKind, Step, Verdict

if TYPE_CHECKING:
    from jax.sharding import Mesh
    from jax.stages import Compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, and the slice that its accelerator is."""

    question: Question
    slice: Slice


def step_verdict(asked: Asked, mesh: Mesh, compiled: Compiled, seconds: float) -> Verdict:
    """Of a step that was compiled."""
    return _verdict(asked, _step(compiled), None, seconds, tuple(zip(mesh.axis_names, mesh.devices.shape, strict=True)))


def problem_verdict(asked: Asked, exc: BaseException, target: Target) -> Verdict:
    """Of a step that could not be."""
    import traceback

    traceback.print_exception(exc)
    problem = Problem(kind=ProblemKind.PROGRAM, message=str(exc), where="", advice="")
    return _verdict(asked, None, problem, 0.0, ())


def _verdict(asked: Asked, step: Step | None, problem: Problem | None, seconds: float, mesh: Any) -> Verdict:
    import jax

    slices, found = asked.question.slices, asked.slice
    return Verdict(
        accelerator=found.name,
        slices=slices,
        chips=found.chips * slices,
        devices=found.jax_devices * slices,
        hosts=found.hosts * slices,
        mesh=mesh,
        axes=(),
        step=step,
        problem=problem,
        compile_seconds=seconds,
        versions={"jax": jax.__version__},
    )


def _step(compiled: Compiled) -> Step:
    taken: Any = compiled.memory_analysis()
    cost: Any = compiled.cost_analysis()
    bound = 0.0
    return Step(
        memory=Memory(
            arguments=taken.argument_size_in_bytes,
            outputs=taken.output_size_in_bytes,
            aliased=taken.alias_size_in_bytes,
            temporaries=taken.temp_size_in_bytes,
            code=taken.generated_code_size_in_bytes,
            total=taken.argument_size_in_bytes
            + taken.output_size_in_bytes
            - taken.alias_size_in_bytes
            + taken.temp_size_in_bytes
            + taken.generated_code_size_in_bytes,
            available=0,
        ),
        flops=max(0.0, cost.get("flops", 0.0)),
        bytes_accessed=max(0.0, cost.get("bytes accessed", 0.0)),
        estimated_seconds=_estimate(cost.get("optimal_seconds", 0.0), bound),
        bound_seconds=0.0,
        collectives=(),
    )


def _estimate(seconds: float, bound: float) -> float | None:
    """The compiler adds -1 for each operation of which it has none: below the bound it is no estimate."""
    return seconds if seconds > bound else None
