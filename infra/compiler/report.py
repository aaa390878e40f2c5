"""What does the compiler say of a step on a slice? The contract between the child that asks it and whoever is told."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from prefect_tpu.infra.compiler import fields


class Crosses(StrEnum):
    """How far apart the devices of a group are."""

    NONE = "none"  # on one host
    HOSTS = "hosts"  # on several hosts of a slice, which have its fast network between them
    SLICES = "slices"  # on several slices, which have the data centre's


class ProblemKind(StrEnum):
    """Why there are no figures, in a word for scripts."""

    TOO_LARGE = "too_large"  # the step needs more memory than a device has
    NOT_DIVISIBLE = "not_divisible"  # an axis of the mesh does not divide a dimension of an array
    NOT_ON_TPU = "not_on_tpu"  # the step has an operation, or a type, that TPUs do not have
    WRONG_DEVICES = "wrong_devices"  # the program is made for another number of devices
    PROGRAM = "program"  # whatever else it raised
    COMPILER = "compiler"  # the compiler gave up, or does not know such a slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of a device's memory that a step takes, in the compiler's words.

    arguments, outputs: what the step is given, and what it gives.
    aliased: of the outputs, what takes the place of arguments (donated ones).
    temporaries: what it needs while it runs.
    code: the program itself.
    total: all of it at once, what is aliased counted once.
    available: what a device has for programs.
    """

    arguments: int
    outputs: int
    aliased: int
    temporaries: int
    code: int
    total: int
    available: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisPlace:
    """An axis of the mesh, and how far apart the devices along it are."""

    name: str
    size: int
    crosses: Crosses


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """What devices exchange in a step, by one kind of operation over the same axes.

    kind: `all-reduce`, `all-gather`, `reduce-scatter`, `all-to-all`, `collective-permute`, …
    axes: of the mesh, along which the devices differ that exchange it.
    count: how often it is done in a step.
    bytes: of the arrays that one device has before or after it, whichever are larger, all times together.
    is_exact: False where the compiler does not tell how often some of it is done: what is in a loop of unknown rounds
        counts once, and of a condition every branch does.
    """

    kind: str
    axes: tuple[str, ...]
    count: int
    bytes: int
    crosses: Crosses
    is_exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The compiler's own counts (`cost_analysis`), as they are: what is in a loop counts once, whatever its rounds.

    seconds: its estimate; None where it gives none, as between slices.
    """

    flops: float
    bytes_accessed: float
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the compiler says of a step that fits; all of one device, and of one step.

    flops: floating-point operations, with every round of its loops.
    estimated_seconds: the compiler's estimate, stretched by the rounds of its loops; None where it gives none. It has
        no waiting for other devices in it.
    bound_seconds: what the operations take at the device's peak: no step is faster.
    collectives: what devices exchange; what goes between slices first.
    """

    memory: Memory
    cost: Cost
    flops: float
    estimated_seconds: float | None
    bound_seconds: float
    collectives: tuple[Collective, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why there are no figures.

    message: what happened, to what.
    where: in the program, as `train.py:41 in loss`; empty where that is not known.
    advice: what to try.
    needs, available: bytes of a device's memory, where it has too little.
    """

    kind: ProblemKind
    message: str
    where: str
    advice: str
    needs: int | None = None
    available: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one question: either `step` or `problem` is there.

    accelerator: the canonical name.
    chips, devices, hosts: over all slices together; devices are JAX's.
    mesh: names and sizes of its axes, the outermost first; empty where the program did not come so far.
    axes: the same axes, and how far apart their devices are.
    compile_seconds: what the compiler took.
    versions: of `jax` and `libtpu`.
    """

    accelerator: str
    slices: int
    chips: int
    devices: int
    hosts: int
    mesh: tuple[tuple[str, int], ...]
    axes: tuple[AxisPlace, ...]
    step: Step | None
    problem: Problem | None
    compile_seconds: float
    versions: dict[str, str]

    @property
    def fits(self) -> bool:
        return self.step is not None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> Verdict:
        """Raises `UnreadableAnswer` where this is no verdict."""
        with fields.reading("A verdict"):
            said = fields.table(data)
            verdict = cls(
                accelerator=fields.text(said["accelerator"]),
                slices=fields.count(said["slices"]),
                chips=fields.count(said["chips"]),
                devices=fields.count(said["devices"]),
                hosts=fields.count(said["hosts"]),
                mesh=tuple(_mesh_axis(axis) for axis in fields.items(said["mesh"])),
                axes=tuple(_axis(fields.table(axis)) for axis in fields.items(said["axes"])),
                step=None if said["step"] is None else _step(fields.table(said["step"])),
                problem=None if said["problem"] is None else _problem(fields.table(said["problem"])),
                compile_seconds=fields.number(said["compile_seconds"]),
                versions={name: fields.text(version) for name, version in fields.table(said["versions"]).items()},
            )
            if (verdict.step is None) is (verdict.problem is None):
                raise ValueError("it needs a step or a problem, and not both")
            return verdict


def _mesh_axis(data: object) -> tuple[str, int]:
    name, size = fields.items(data)
    return fields.text(name), fields.count(size)


def _axis(said: dict[str, Any]) -> AxisPlace:
    return AxisPlace(
        name=fields.text(said["name"]), size=fields.count(said["size"]), crosses=Crosses(fields.text(said["crosses"]))
    )


def _step(said: dict[str, Any]) -> Step:
    estimated = said["estimated_seconds"]
    return Step(
        memory=Memory(**{name: fields.count(said["memory"][name]) for name in Memory.__dataclass_fields__}),
        cost=_cost(fields.table(said["cost"])),
        flops=fields.number(said["flops"]),
        estimated_seconds=None if estimated is None else fields.number(estimated),
        bound_seconds=fields.number(said["bound_seconds"]),
        collectives=tuple(_collective(fields.table(one)) for one in fields.items(said["collectives"])),
    )


def _cost(said: dict[str, Any]) -> Cost:
    seconds = said["seconds"]
    return Cost(
        flops=fields.number(said["flops"]),
        bytes_accessed=fields.number(said["bytes_accessed"]),
        seconds=None if seconds is None else fields.number(seconds),
    )


def _collective(said: dict[str, Any]) -> Collective:
    return Collective(
        kind=fields.text(said["kind"]),
        axes=tuple(fields.text(axis) for axis in fields.items(said["axes"])),
        count=fields.count(said["count"]),
        bytes=fields.count(said["bytes"]),
        crosses=Crosses(fields.text(said["crosses"])),
        is_exact=fields.truth(said["is_exact"]),
    )


def _problem(said: dict[str, Any]) -> Problem:
    needs, available = said["needs"], said["available"]
    return Problem(
        kind=ProblemKind(fields.text(said["kind"])),
        message=fields.text(said["message"]),
        where=fields.text(said["where"]),
        advice=fields.text(said["advice"]),
        needs=None if needs is None else fields.count(needs),
        available=None if available is None else fields.count(available),
    )
