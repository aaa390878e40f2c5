"""What JAX and the compiler really said becomes a problem: its kind, what it names, where it is."""

from __future__ import annotations

import pytest
from compiler_words import errors

from prefect_tpu.infra.compiler.figures import FIGURES, GIB, available_bytes, peak_flops
from prefect_tpu.infra.compiler.problems import LONGEST_MESSAGE, problem_of
from prefect_tpu.infra.compiler.raised import Frame, Raised, place_of
from prefect_tpu.infra.compiler.refusals import REFUSALS
from prefect_tpu.infra.compiler.report import Problem, ProblemKind

# What the compiler's library has beside what it said when these were recorded.
USED = "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 17.5G of 15.75G hbm. Exceeded hbm capacity by"
MESH = "Mesh data=4 × tp=3 is for 12 devices, v6e-16 has 16: it leaves devices idle. Use data=16 × tp=1."


def _raised(name: str, devices: int | None = 8) -> Raised:
    said = errors()[name]
    return Raised(type=said["type"], text=said["text"], devices=devices)


def _problem(name: str) -> Problem:
    return problem_of(_raised(name))


@pytest.mark.parametrize("generation", FIGURES)
def test_what_is_available_is_what_the_compiler_says(generation: str) -> None:
    found = _problem(f"too_large_{generation}")
    assert found.kind is ProblemKind.TOO_LARGE
    assert found.available == available_bytes(generation)
    assert found.needs is not None and found.needs > 298 * GIB
    assert f"{FIGURES[generation].available_gib:.2f} GiB are there" in found.message


def test_the_peak_of_a_chip_is_that_of_its_devices_together() -> None:
    assert peak_flops("v5e") == 197e12
    assert peak_flops("tpu7x") == 2307e12 / 2


@pytest.mark.parametrize("name", ["odd_argument", "odd_in_shardings", "odd_shard_map", "odd_device_put"])
def test_a_dimension_that_does_not_divide_is_named_with_its_axis(name: str) -> None:
    found = _problem(name)
    axis, parts, shape = ("data", 8, "10, 3") if name == "odd_device_put" else ("fsdp", 4, "10, 64")
    assert found.kind is ProblemKind.NOT_DIVISIBLE
    assert shape in found.message.replace("[10,64]", "10, 64")
    assert f"its dimension 0 has 10, and axis '{axis}' of the mesh has {parts}" in found.message
    assert f"a multiple of {parts} ({12 if parts == 4 else 16} is the next)" in found.advice


def test_the_product_of_axes_is_named_as_such() -> None:
    text = errors()["odd_argument"]["text"].replace("P('fsdp',)", "P(('fsdp', 'tp'), None)")
    assert "the product of 'fsdp', 'tp' of the mesh" in problem_of(Raised(type="IndivisibleError", text=text)).message


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("eig", ProblemKind.NOT_ON_TPU, "the operation 'eig'"),
        ("kernel", ProblemKind.NOT_ON_TPU, "the kernel 'my_cuda_kernel'"),
        ("complex_128", ProblemKind.NOT_ON_TPU, "FFT does not take the type c128"),
        ("callback_exported", ProblemKind.PROGRAM, "calls back into Python"),
        ("print_exported", ProblemKind.PROGRAM, "jax.debug.print"),
        ("reshaped", ProblemKind.WRONG_DEVICES, "lays the devices out as (3,5), and the slice has 8"),
        ("mesh_utils", ProblemKind.WRONG_DEVICES, "a mesh of (4, 5), and the slice has 16 devices"),
        ("two_meshes", ProblemKind.WRONG_DEVICES, "lie on different devices: argument args[0] of add"),
        ("no_such_axis", ProblemKind.PROGRAM, "over the axis 'rows', and the mesh has ('fsdp', 'tp')"),
        ("array_on_the_slice", ProblemKind.PROGRAM, "whose devices are not there"),
        ("call_on_the_slice", ProblemKind.PROGRAM, "whose devices are not there"),
        ("compiled_twice", ProblemKind.PROGRAM, "compiled already"),
        ("no_such_generation", ProblemKind.COMPILER, "TPUs called TPU7"),
    ],
)
def test_what_was_said_says_what_it_is(name: str, kind: ProblemKind, words: str) -> None:
    found = _problem(name)
    assert found.kind is kind and words in found.message and found.advice


def test_every_refusal_was_said() -> None:
    """No row is there for words that nobody has heard, and none before another takes its words."""
    heard = [error["text"] for error in errors().values()] + [USED, MESH]
    first = [next(place for place, (pattern, _) in enumerate(REFUSALS) if pattern.search(text)) for text in heard]
    assert set(first) == set(range(len(REFUSALS)))


def test_memory_that_is_used_up_while_it_is_laid_out() -> None:
    found = problem_of(Raised(type="JaxRuntimeError", text=USED))
    assert (found.kind, found.needs, found.available) == (
        ProblemKind.TOO_LARGE,
        int(17.5 * GIB),
        available_bytes("v5e"),
    )


@pytest.mark.parametrize(("arguments", "advice"), [(14 * GIB, "prefect_tpu.fsdp"), (1 * GIB, "--fit"), (None, "--fit")])
def test_the_advice_for_too_large_a_step_depends_on_what_takes_most(arguments: int | None, advice: str) -> None:
    said = errors()["too_large_v5e"]
    found = problem_of(Raised(type=said["type"], text=said["text"], arguments=arguments))
    assert advice in found.advice
    assert ("Its arguments alone take" in found.message) is (arguments is not None)


def test_a_mesh_for_other_devices_keeps_its_words() -> None:
    found = problem_of(Raised(type="UsageError", text=MESH))
    assert (found.kind, found.message) == (ProblemKind.WRONG_DEVICES, MESH)


def test_what_this_project_says_has_no_name_of_a_class() -> None:
    assert problem_of(Raised(type="UsageError", text="lower returned None.")).message == "lower returned None."


def test_an_array_that_cannot_be_reshaped_is_the_programs() -> None:
    assert problem_of(_raised("reshaped", devices=16)).kind is ProblemKind.PROGRAM


@pytest.mark.parametrize(
    ("kind_of_error", "kind"),
    [("JaxRuntimeError", ProblemKind.COMPILER), ("KeyError", ProblemKind.PROGRAM)],
)
def test_whatever_else_was_raised_is_told_as_it_is(kind_of_error: str, kind: ProblemKind) -> None:
    found = problem_of(Raised(type=kind_of_error, text="'learning_rate'"))
    assert (found.kind, found.message) == (kind, f"{kind_of_error}: 'learning_rate'")
    assert len(problem_of(Raised(type=kind_of_error, text="x" * 10_000)).message) == LONGEST_MESSAGE + 1


def test_the_place_is_the_innermost_line_of_ones_own() -> None:
    frames = (
        Frame(file="/usr/lib/python3.11/runpy.py", line=1, function="run"),
        Frame(file="/home/me/train.py", line=41, function="loss"),
        Frame(file="/opt/venv/lib/python3.11/site-packages/jax/core.py", line=9, function="bind"),
        Frame(file="<string>", line=1, function="<module>"),
    )
    raised = Raised(type="ValueError", text="", frames=frames)
    assert place_of(raised, ["/usr/lib/python3.11"]) == "train.py:41 in loss"
    assert place_of(Raised(type="ValueError", text="", frames=frames[2:])) == ""


def test_the_place_that_the_compiler_tells_is_taken() -> None:
    assert _problem("kernel").where.startswith("record.py:")
    assert _problem("complex_128").where == ""
