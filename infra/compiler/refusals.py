"""What do JAX and the compiler say when they refuse a program, and what does it mean?

They have few types of errors and no codes, so their words decide; each row of the table has a test with words that were
recorded from them (jax 0.10.2, libtpu 0.0.42).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from prefect_tpu.infra.compiler.figures import GIB
from prefect_tpu.infra.compiler.raised import Raised
from prefect_tpu.infra.compiler.report import Problem, ProblemKind

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": GIB, "T": 1024 * GIB}

_Make = Callable[[re.Match[str], Raised], Problem | None]


def problem(kind: ProblemKind, message: str, advice: str) -> Problem:
    """One whose place is not known yet."""
    return Problem(kind=kind, message=message, where="", advice=advice)


def _too_large(found: re.Match[str], raised: Raised) -> Problem:
    needs, available = (int(float(found[n]) * _UNITS[found[n + 1]]) for n in (1, 3))
    said = f"The step needs {needs / GIB:.2f} GiB of a device's memory, and {available / GIB:.2f} GiB are there."
    if raised.arguments is not None:
        said += f" Its arguments alone take {raised.arguments / GIB:.2f} GiB."
    return Problem(
        kind=ProblemKind.TOO_LARGE,
        message=said,
        where="",
        advice=_smaller(raised.arguments, available),
        needs=needs,
        available=available,
    )


def _smaller(arguments: int | None, available: int) -> str:
    if arguments is not None and arguments > available // 2:
        return (
            "Most of it is what the step is given: share parameters and optimizer state out among more devices"
            " (prefect_tpu.fsdp), keep them in a smaller type, or take a larger slice."
        )
    return (
        "Give it a smaller batch (--fit tells the largest), keep less of what the forward pass computes"
        " (jax.checkpoint), donate what the step replaces (donate_argnums), or take a larger slice."
    )


def _indivisible(found: re.Match[str], raised: Raised) -> Problem:
    spec, axis, parts, size, shape = found.groups()
    return _not_divisible(
        f"An array of shape ({shape.rstrip(',')})", int(axis), int(size), _axis_name(spec, int(axis)), int(parts)
    )


def _indivisible_in_map(found: re.Match[str], raised: Raised) -> Problem:
    argument, shape, axis, size, name, parts = found.groups()
    return _not_divisible(f"{argument} of shape {shape}", int(axis), int(size), f"axis {name!r}", int(parts))


def _not_divisible(what: str, axis: int, size: int, over: str, parts: int) -> Problem:
    return problem(
        ProblemKind.NOT_DIVISIBLE,
        f"{what} cannot be shared out: its dimension {axis} has {size}, and {over} of the mesh has {parts}, which does"
        " not divide it.",
        f"Make that dimension a multiple of {parts} ({-(-size // parts) * parts} is the next), or share out another"
        " dimension.",
    )


def _reshaped(found: re.Match[str], raised: Raised) -> Problem | None:
    """NumPy says the same of any array; it is the devices where it is as large as they are many."""
    if int(found[1]) != raised.devices:
        return None
    return problem(
        ProblemKind.WRONG_DEVICES,
        f"The program lays the devices out as {found[2]}, and the slice has {found[1]}.",
        "Take the sizes of a mesh from jax.device_count(), or use prefect_tpu.mesh with -1 for one of them.",
    )


def _axis_name(spec: str, axis: int) -> str:
    """Of a `PartitionSpec` as it is printed: `'fsdp',` or `None, ('fsdp', 'tp')`."""
    try:
        over = ast.literal_eval(f"({spec},)" if spec and not spec.endswith(",") else f"({spec})")[axis]
    except (ValueError, SyntaxError, IndexError, TypeError):
        return "what it is shared out over"
    return f"axis {over!r}" if isinstance(over, str) else f"the product of {', '.join(map(repr, over))}"


def _as_it_is(kind: ProblemKind, message: str, advice: str) -> _Make:
    """A row whose message takes the pattern's groups by `{1}`, and the whole text by `{0}`."""

    def make(found: re.Match[str], raised: Raised) -> Problem:
        return problem(kind, message.format(raised.text, *found.groups()), advice)

    return make


_SIZE = r"(\d+(?:\.\d+)?)([KMGT]?)"
REFUSALS: tuple[tuple[re.Pattern[str], _Make], ...] = (
    (re.compile(rf"Ran out of memory on HBM, .*?\({_SIZE}\) exceeds available HBM \({_SIZE}\)"), _too_large),
    (re.compile(rf"Ran out of memory in memory space hbm. Used {_SIZE} of {_SIZE} hbm"), _too_large),
    (
        re.compile(
            r"spec=P\((.*?)\), memory_kind.* array axis (\d+) is partitioned (\d+) times, but the dimension size is"
            r" (\d+) \(full shape: \(([^)]*)\)"
        ),
        _indivisible,
    ),
    (
        re.compile(
            r"the passed (\S+) of shape (\S+?),? where .*"
            r"maps array axis (\d+) \(of size (\d+)\) to mesh axis '([^']*)'"
            r" \(of size (\d+)\)"
        ),
        _indivisible_in_map,
    ),
    (
        re.compile(r"MLIR translation rule for primitive '([^']*)' not found for platform tpu"),
        _as_it_is(
            ProblemKind.NOT_ON_TPU,
            "TPUs do not have the operation {1!r}, and the step has it.",
            "Compute it outside of the step, on the host, or write it with operations that TPUs have.",
        ),
    ),
    (
        re.compile(r"Custom emitter for (\S+) not found"),
        _as_it_is(
            ProblemKind.NOT_ON_TPU,
            "The step calls the kernel {1!r}, which the TPU's compiler does not have: it is of another platform.",
            "Use what JAX or Pallas have for TPUs in its place.",
        ),
    ),
    (
        re.compile(r"Unexpected operand type for ([\w-]+): (\w+)"),
        _as_it_is(
            ProblemKind.NOT_ON_TPU,
            "The operation {1} does not take the type {2} on TPUs.",
            "Use a type that TPUs have there: complex64 and float32, not the 64-bit ones.",
        ),
    ),
    (
        re.compile(r"the platform for the specified backend \w+ is different from the lowering platform tpu"),
        _as_it_is(
            ProblemKind.PROGRAM,
            "The step calls back into Python (jax.debug.print, a callback), which cannot be carried over to a slice"
            " that is not there.",
            "Leave such calls out of the step while it is checked, or give a function lower(mesh, …), whose step may"
            " have them.",
        ),
    ),
    (
        re.compile(r"^Mesh .*(?:is for \d+ devices|cannot be filled up|cannot go over)"),
        _as_it_is(ProblemKind.WRONG_DEVICES, "{0}", "Say the mesh by -1, so that it takes what each slice has."),
    ),
    (
        re.compile(r"Number of devices (\d+) must equal the product of mesh_shape (\([^)]*\))"),
        _as_it_is(
            ProblemKind.WRONG_DEVICES,
            "The program makes a mesh of {2}, and the slice has {1} devices.",
            "Take the sizes from jax.device_count(), or use prefect_tpu.mesh with -1 for one of them.",
        ),
    ),
    (
        re.compile(r"cannot reshape array of size (\d+) into shape (\([^)]*\))"),
        _reshaped,
    ),
    (
        re.compile(r"Received incompatible devices for jitted computation. Got (.+)"),
        _as_it_is(
            ProblemKind.WRONG_DEVICES,
            "The step's arguments lie on different devices: {1}.",
            "Lay all of them on one mesh over every device, such as prefect_tpu.mesh() makes.",
        ),
    ),
    (
        re.compile(r"Resource axis: (\S+) of (P\(.*?\)) is not found in mesh: (\(.*?\))"),
        _as_it_is(
            ProblemKind.PROGRAM,
            "{2} shares an array out over the axis {1!r}, and the mesh has {3}.",
            "Name an axis of the mesh there, or give the mesh that axis (--mesh).",
        ),
    ),
    (
        re.compile(r"not available with compile-only client|'Executable' object has no attribute 'local_devices'"),
        _as_it_is(
            ProblemKind.PROGRAM,
            "The function makes or computes arrays on the mesh, whose devices are not there.",
            "Describe them: jax.ShapeDtypeStruct(shape, dtype, sharding=…) in place of an array, jax.eval_shape in"
            " place of a call that makes state, and .lower(…) in place of the step's call.",
        ),
    ),
    (
        re.compile(r"Cannot apply JAX transformations to a function lowered and compiled"),
        _as_it_is(
            ProblemKind.PROGRAM,
            "The step is compiled already, for the devices of this machine.",
            "Give prefect_tpu.step what jax.jit returns: it is compiled at its first call.",
        ),
    ),
    (
        re.compile(r"Invalid TPU external name: (\S+)"),
        _as_it_is(
            ProblemKind.COMPILER,
            "The compiler does not know TPUs called {1}.",
            "Ask about another generation, or with a newer jax[tpu].",
        ),
    ),
)
