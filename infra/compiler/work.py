"""How much does a step compute, with every round of its loops? The compiler's own counts take each loop once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from prefect_tpu.infra.compiler.hlo import Computation, Instruction, Program
from prefect_tpu.infra.compiler.rounds import Times

_CYCLES = r'"estimated_cycles":"?(\d+)'


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the rounds after the first add.

    further_flops: of multiplications of matrices and convolutions, which is nearly all that counts.
    longer: how much longer a step takes than its loops done once, by the compiler's estimates of its parts.
    """

    further_flops: float
    longer: float


def work(program: Program, executions: Mapping[str, Times]) -> Work:
    once = often = 0
    further = 0.0
    for name, times in executions.items():
        computation = program.computations[name]
        cycles = sum(int(one.attribute(_CYCLES) or 0) for one in computation.instructions.values())
        once, often = once + cycles, often + cycles * times.count
        if times.count != 1:
            further += (times.count - 1) * flops_of(computation)
    return Work(further_flops=further, longer=often / once if once else 1.0)


def flops_of(computation: Computation) -> float:
    """Of its multiplications of matrices and its convolutions, done once."""
    return sum(_flops(computation))


def _flops(computation: Computation) -> Iterator[float]:
    for one in computation.instructions.values():
        if one.opcode == "dot":
            yield _of_dot(computation, one)
        elif one.opcode == "convolution":
            yield _of_convolution(computation, one)


def _of_dot(computation: Computation, one: Instruction) -> float:
    left = computation.instructions[one.operands[0]].arrays[0].dims
    summed = [int(axis) for axis in one.attribute(r"lhs_contracting_dims=\{([\d,]*)\}").split(",") if axis]
    return 2.0 * prod(one.arrays[0].dims) * prod(left[axis] for axis in summed)


def _of_convolution(computation: Computation, one: Instruction) -> float:
    """Twice the products: of each output and each input feature, those of the window that meet no padding.

    On TPUs nearly every multiplication of matrices is one, whose batches may be places of a window.
    """
    left, kernel = (computation.instructions[name].arrays[0].dims for name in one.operands[:2])
    result = one.arrays[0].dims
    labels, _, of_result = one.attribute(r"dim_labels=([^\s,]+)").partition("->")
    of_left, _, of_kernel = labels.partition("_")
    products = result[of_result.index("b")] * result[of_result.index("f")] * kernel[of_kernel.index("i")]
    for axis, label in enumerate(sorted(label for label in of_result if label.isdigit())):
        side = _side(one, axis, left[of_left.index(label)], kernel[of_kernel.index(label)])
        products *= sum(side.met(place) for place in range(result[of_result.index(label)]))
    return 2.0 * products


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """A window along one axis: how many places it has, over how many of the array."""

    window: int
    array: int
    stride: int
    before: int
    apart_in_array: int
    apart_in_window: int

    def met(self, place: int) -> int:
        """How many places of the window lie on one of the array, at a place of the result."""
        begin = place * self.stride - self.before
        if self.apart_in_window != 1:
            return sum(self._is_met(begin + at * self.apart_in_window) for at in range(self.window))
        first, last = max(begin, 0), min(begin + self.window - 1, (self.array - 1) * self.apart_in_array)
        return max(0, last // self.apart_in_array - (first - 1) // self.apart_in_array)

    def _is_met(self, at: int) -> bool:
        return 0 <= at <= (self.array - 1) * self.apart_in_array and at % self.apart_in_array == 0


def _side(one: Instruction, axis: int, array: int, window: int) -> _Side:
    written = one.attribute(r"window=\{([^}]*)\}")
    said = dict(part.split("=") for part in written.split())

    def number(name: str, default: str) -> int:
        return int(said[name].split("x")[axis].split("_")[0]) if name in said else int(default)

    return _Side(
        window=window,
        array=array,
        stride=number("stride", "1"),
        before=number("pad", "0"),
        apart_in_array=number("lhs_dilate", "1"),
        apart_in_window=number("rhs_dilate", "1"),
    )
