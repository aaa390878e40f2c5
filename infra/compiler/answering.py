"""What does the compiler say of one question after another? What was found out for one is kept for the next."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.compiler.capture import Call, at_first_step, loaded
from prefect_tpu.infra.compiler.lowering import Portable, argument_bytes, check_devices, portable
from prefect_tpu.infra.compiler.measuring import Asked, problem_verdict, step_verdict
from prefect_tpu.infra.compiler.question import Question, Target, takes_mesh
from prefect_tpu.infra.compiler.report import Verdict
from prefect_tpu.infra.compiler.slices import topology_words
from prefect_tpu.infra.compiler.surroundings import begin_again, surround
from prefect_tpu.infra.compiler.trouble import Stage, problem_in
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.signatures import of_function

if TYPE_CHECKING:
    from jax import Device
    from jax.sharding import Mesh
    from jax.stages import Lowered


class Answering:
    """The one program of this process.

    A program that is run up to its step has the devices of its first question for ever: JAX counts them once. A
    function that lowers its step itself is given a mesh of whatever slice is asked about.
    """

    def __init__(self, target: Target, scratch: Path, versions: dict[str, str]) -> None:
        self._target, self._scratch, self._versions = target, scratch, versions
        self._first: Question | None = None
        self._program: Callable[..., Any] | None = None
        self._steps: dict[str, Portable] = {}
        self._runs = 0  # of the program up to its step
        self._stage = Stage(devices=0)

    def answer(self, question: Question) -> dict[str, Any]:
        """A verdict as JSON, and whether this process could be asked about slices of another size too."""
        if self._first is None:
            self._first = question
            surround(self._target, question, self._scratch)
        asked = Asked(question=question, slice=resolve(question.accelerator), versions=self._versions)
        began, self._stage = time.monotonic(), Stage(devices=asked.devices)
        try:
            verdict = self._verdict(asked)
        except BaseException as exc:  # the program's own, JAX's or the compiler's: each is an answer
            traceback.print_exception(exc)
            verdict = problem_verdict(asked, problem_in(exc, self._target, self._stage), time.monotonic() - began)
        return {"verdict": verdict.to_json(), "any_size": self._program is not None and self._lowers_itself}

    def _verdict(self, asked: Asked) -> Verdict:
        devices = _devices(asked)
        lowered, mesh = self._lowered(asked, devices)
        self._stage = replace(self._stage, arguments=argument_bytes(lowered))
        began = time.monotonic()
        compiled = lowered.compile()
        check_devices(compiled, devices)
        self._stage = replace(self._stage, is_compiled=True)
        return step_verdict(asked, mesh, compiled, time.monotonic() - began)

    def _lowered(self, asked: Asked, devices: Sequence[Device]) -> tuple[Lowered, Mesh]:
        if self._program is None:
            self._program = loaded(self._target, self._scratch)
        self._stage = replace(self._stage, function=self._program)
        if not self._lowers_itself:
            return self._step(asked.question).on(devices)
        from prefect_tpu.infra.training.mesh import mesh_over

        mesh = mesh_over(devices, asked.question.mesh or {"data": -1})
        lowered = self._program(mesh=mesh, **asked.question.params)
        if not _is_lowered(lowered):
            raise UsageError(f"{self._target.function} returned {lowered!r:.60}: return jax.jit(step).lower(…).")
        return lowered, mesh

    def _step(self, question: Question) -> Portable:
        assert self._program is not None
        key = json.dumps(question.params, sort_keys=True)
        if key not in self._steps:
            self._runs += 1
            if self._runs > 1:
                begin_again(self._scratch, self._runs)
            self._steps = {}  # the last one alone is kept: they hold much memory
            self._steps[key] = at_first_step(self._program, question.params, lambda call: self._carried(call, question))
        return self._steps[key]

    def _carried(self, call: Call, question: Question) -> Portable:
        self._stage = replace(self._stage, function=call.function)
        return portable(call, question.slices)

    @property
    def _lowers_itself(self) -> bool:
        return self._program is not None and takes_mesh(of_function(self._program))


def _is_lowered(value: Any) -> bool:
    from jax.stages import Lowered

    return isinstance(value, Lowered)


def _devices(asked: Asked) -> Sequence[Device]:
    from jax.experimental import topologies

    return topologies.get_topology_desc(**topology_words(asked.slice, asked.question.slices)).devices
