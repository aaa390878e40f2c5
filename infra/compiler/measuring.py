"""What does a verdict say? Read from what the compiler made of a step, or from what came in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.compiler.crossing import Layout, Place, axis_places
from prefect_tpu.infra.compiler.figures import available_bytes
from prefect_tpu.infra.compiler.question import Question
from prefect_tpu.infra.compiler.report import AxisPlace, Memory, Problem, Step, Verdict
from prefect_tpu.infra.compiler.step_figures import step_of

if TYPE_CHECKING:
    from jax.sharding import Mesh
    from jax.stages import Compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, the slice that its accelerator is, and who answers: the versions of JAX and libtpu."""

    question: Question
    slice: Slice
    versions: dict[str, str]

    @property
    def devices(self) -> int:
        """JAX's, over all slices."""
        return self.slice.jax_devices * self.question.slices


def step_verdict(asked: Asked, mesh: Mesh, compiled: Compiled, seconds: float) -> Verdict:
    """Of a step that was compiled."""
    layout = _layout(mesh)
    return _verdict(asked, seconds, layout=layout, axes=axis_places(layout), step=_step(asked, layout, compiled))


def problem_verdict(asked: Asked, problem: Problem, seconds: float) -> Verdict:
    """Of a step that could not be."""
    return _verdict(asked, seconds, problem=problem)


def _verdict(
    asked: Asked,
    seconds: float,
    *,
    layout: Layout | None = None,
    axes: tuple[AxisPlace, ...] = (),
    step: Step | None = None,
    problem: Problem | None = None,
) -> Verdict:
    slices, found = asked.question.slices, asked.slice
    return Verdict(
        accelerator=found.name,
        slices=slices,
        chips=found.chips * slices,
        devices=asked.devices,
        hosts=found.hosts * slices,
        mesh=() if layout is None else tuple(zip(layout.names, layout.sizes, strict=True)),
        axes=axes,
        step=step,
        problem=problem,
        compile_seconds=seconds,
        versions=asked.versions,
    )


def _layout(mesh: Mesh) -> Layout:
    places = (
        Place(slice=getattr(device, "slice_index", 0), host=device.process_index, id=device.id)
        for device in mesh.devices.flat
    )
    return Layout(names=tuple(map(str, mesh.axis_names)), sizes=tuple(mesh.devices.shape), places=tuple(places))


def _step(asked: Asked, layout: Layout, compiled: Compiled) -> Step:
    counted: Any = compiled.cost_analysis()
    return step_of(compiled.as_text() or "", counted, _memory(asked, compiled), layout, asked.slice.generation)


def _memory(asked: Asked, compiled: Compiled) -> Memory:
    taken: Any = compiled.memory_analysis()
    parts = {
        "arguments": taken.argument_size_in_bytes,
        "outputs": taken.output_size_in_bytes,
        "aliased": taken.alias_size_in_bytes,
        "temporaries": taken.temp_size_in_bytes,
        "code": taken.generated_code_size_in_bytes,
    }
    total = sum(parts.values()) - 2 * parts["aliased"]
    return Memory(**parts, total=total, available=available_bytes(asked.slice.generation))
