"""Which sizes and names does a mesh spec say? Every way of writing one: JSON, Python, Hydra, Tunix, `data=4,tp=2`."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.value_words import in_words

FORMS = """write {"data": -1}, data=-1, or sizes and names such as [[4,2],["fsdp","tp"]]"""

_LONGEST_SHOWN = 60  # characters of a spec in a message

_QUOTED = re.compile(r"""(["'])((?:(?!\1).)*)\1""")
_WORD = re.compile(r"""["']?([A-Za-z_][\w.-]*)["']?""")
_TRAILING_COMMA = re.compile(r",\s*([\])}])")
_PAIR = r"\s*([A-Za-z_][\w.-]*)\s*=\s*(-?\d{1,9})\s*"
_PAIRS = re.compile(rf"{_PAIR}(?:[,×]{_PAIR})*")

MeshSpec = str | Mapping[str, int] | Sequence[Any]


def sizes_and_names(spec: MeshSpec, what: str = "Mesh") -> tuple[list[Any], list[Any]]:
    """Both as they were given, of equal number. Raises `UsageError`, saying `what` it is, where it is no spec."""
    read = _read(spec) if isinstance(spec, str) else spec
    if isinstance(read, Mapping) and read:
        return list(read.values()), list(read)
    parts = [_read(part) if isinstance(part, str) else part for part in read] if _is_list(read) else []
    if len(parts) != 2 or not all(_is_list(part) and part for part in parts):
        raise UsageError(f"{what} {shown(spec)} cannot be read: {FORMS}.")
    sizes, names = map(list, parts)
    if len(sizes) != len(names):
        raise UsageError(f"{what} {shown(spec)} has {len(sizes)} sizes and {len(names)} names: give one name per size.")
    return sizes, names


def shown(spec: object) -> str:
    """A spec or a part of it in a message."""
    text = in_words(spec)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _read(text: str) -> Any:
    """What a text says; None where it says nothing."""
    text = _unquoted(text.strip())
    if _PAIRS.fullmatch(text):
        pairs = re.findall(_PAIR, text)
        return [[int(size) for _, size in pairs], [name for name, _ in pairs]]
    for written in _as_json(text):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(written, object_pairs_hook=_in_order)
    return None


def _unquoted(text: str) -> str:
    """Without the quotes that a shell or a form has left around all of it."""
    if quoted := _QUOTED.fullmatch(text):
        return quoted[2]
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(read := json.loads(text), str):
            return read
    return text


def _as_json(text: str) -> Iterator[str]:
    """JSON itself; Python's notation, or Hydra's bare words, which a shell leaves of a quoted list; two lists bare."""
    yield text
    quoted = _WORD.sub(r'"\1"', text).replace("(", "[").replace(")", "]")
    listed = _TRAILING_COMMA.sub(r"\1", quoted)
    yield listed
    yield f"[{listed}]"


def _in_order(pairs: list[tuple[str, Any]]) -> list[list[Any]]:
    """Of a table: so that an axis that stands there twice is seen."""
    return [[size for _, size in pairs], [name for name, _ in pairs]]


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
