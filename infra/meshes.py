"""What a mesh spec says: `{"data": -1, "tp": 4}` or `[[4,2],[fsdp,tp]]`, and whether it uses a slice whole."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.errors import UsageError

REST = -1  # an axis of this size takes all devices that the others leave
FORMS = """write {"data": -1}, or sizes and names such as [[4,2],["fsdp","tp"]]"""

_WORD = re.compile(r"""["']?([A-Za-z_][\w.-]*)["']?""")
_TRAILING_COMMA = re.compile(r",\s*([\])}])")

MeshSpec = str | Mapping[str, int] | Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshShape:
    """The axes of a mesh, outermost first. One size may be `REST` until it is fitted to a slice."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return " × ".join(f"{name}={size}" for name, size in zip(self.names, self.sizes, strict=True))


def parse_mesh(spec: MeshSpec) -> MeshShape:
    """Read a mesh spec in any of its forms. Raises `UsageError` where it is none of them."""
    read = _read_text(spec) if isinstance(spec, str) else spec
    sizes, names = _parts(read, spec)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int) or (size < 1 and size != REST):
            raise UsageError(f"Mesh {spec!r} has the size {size!r}: use whole numbers from 1, or -1 for the rest.")
    for name in names:
        if not isinstance(name, str) or not name:
            raise UsageError(f"Mesh {spec!r} has the axis name {name!r}: use words.")
    if len(set(names)) != len(names):
        raise UsageError(f"Mesh {spec!r} names an axis twice: give each axis its own name.")
    if sizes.count(REST) > 1:
        raise UsageError(f"Mesh {spec!r} has {sizes.count(REST)} axes of size -1: only one can take the rest.")
    return MeshShape(names=tuple(names), sizes=tuple(sizes))


def fit_mesh(shape: MeshShape, devices: int) -> MeshShape:
    """The shape with its -1 filled in. Raises `UsageError` where it does not use exactly `devices`."""
    fixed = math.prod(size for size in shape.sizes if size != REST)
    if REST in shape.sizes and devices % fixed == 0:
        sizes = tuple(devices // fixed if size == REST else size for size in shape.sizes)
        return MeshShape(names=shape.names, sizes=sizes)
    if REST in shape.sizes:
        raise UsageError(
            f"Mesh {shape} cannot share {devices} devices: its fixed sizes make {fixed}, which does not divide"
            f" {devices}. {_suggest(shape, devices)}"
        )
    if fixed != devices:
        left = "leaves devices idle" if fixed < devices else "wants more than there are"
        raise UsageError(
            f"Mesh {shape} is for {fixed} devices, the slice has {devices}: it {left}. {_suggest(shape, devices)}"
        )
    return shape


def _read_text(text: str) -> Any:
    """JSON, Python's notation, or Hydra's bare words, which a shell leaves of a quoted list."""
    as_json = _WORD.sub(r'"\1"', text.strip()).replace("(", "[").replace(")", "]")
    try:
        return json.loads(_TRAILING_COMMA.sub(r"\1", as_json))
    except ValueError as exc:
        raise UsageError(f"Mesh {text!r} cannot be read: {FORMS}.") from exc


def _parts(read: Any, spec: MeshSpec) -> tuple[list[Any], list[Any]]:
    """(sizes, names) as they were given."""
    if isinstance(read, Mapping) and read:
        return list(read.values()), list(read)
    if not _is_list(read) or len(read) != 2 or not all(_is_list(part) and part for part in read):
        raise UsageError(f"Mesh {spec!r} cannot be read: {FORMS}.")
    sizes, names = map(list, read)
    if len(sizes) != len(names):
        raise UsageError(f"Mesh {spec!r} has {len(sizes)} sizes and {len(names)} names: give one name per size.")
    return sizes, names


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _suggest(shape: MeshShape, devices: int) -> str:
    """A mesh of the same axes that fits: the inner sizes stay as far as they divide, the first takes the rest."""
    left, sizes = devices, []
    for size in reversed(shape.sizes[1:]):
        sizes.append(math.gcd(left, size) if size != REST else 1)
        left //= sizes[-1]
    fitting = MeshShape(names=shape.names, sizes=(left, *reversed(sizes)))
    return f"Use {fitting}, or -1 for the axis that shall take the rest."
