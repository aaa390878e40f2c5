"""What in a value cannot be pickled? The innermost part, by the name under which its owner knows it."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

MOST_DEEP = 8  # a deeper part is named by what holds it


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """A part that cannot be pickled.

    part: the named part of the whole that it belongs to.
    path: how to get to it from there; the part's own name where it is all of it.
    """

    part: str
    path: str
    value: Any


def culprit(whole: object, parts: Mapping[str, Any]) -> Culprit | None:
    """The first of the named parts that cannot be pickled, or what inside it cannot; None where all of them can."""
    seen = {id(whole)}
    for name, part in parts.items():
        if not _is_picklable(part):
            path, value = _innermost(name, part, seen)
            return Culprit(part=name, path=path, value=value)
    return None


def kind(value: object) -> str:
    """The name of a value's type, with its module."""
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def used_by(function: object) -> dict[str, Any]:
    """What a function carries with it, by name: bound object, arguments, closure, defaults and globals it reads."""
    if isinstance(function, partial):
        given = {f"argument {place}": value for place, value in enumerate(function.args, start=1)}
        return {**used_by(function.func), **given, **function.keywords}
    if isinstance(function, types.MethodType):
        return {"self": function.__self__, **used_by(function.__func__)}
    if isinstance(function, types.FunctionType):
        return {**_defaults(function), **_closure(function), **_globals(function)}
    return dict(_attributes(function))


def _innermost(name: str, value: object, seen: set[int]) -> tuple[str, object]:
    seen.add(id(value))
    if len(seen) <= MOST_DEEP:
        for inner, part in _parts(name, value):
            if id(part) not in seen and not _is_picklable(part):
                return _innermost(inner, part, seen)
    return name, value


def _parts(name: str, value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"{name}[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"{name}[{place}]", part) for place, part in enumerate(value))
    elif isinstance(value, types.FunctionType | types.MethodType | partial):
        yield from used_by(value).items()
    elif not isinstance(value, type | types.ModuleType):
        yield from ((f"{name}.{attribute}", part) for attribute, part in _attributes(value))


def _attributes(value: object) -> Iterator[tuple[str, Any]]:
    yield from getattr(value, "__dict__", {}).items()
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)


def _defaults(function: types.FunctionType) -> dict[str, Any]:
    given = function.__defaults__ or ()
    taken = function.__code__.co_varnames[: function.__code__.co_argcount]
    return {**dict(zip(taken[len(taken) - len(given) :], given, strict=True)), **(function.__kwdefaults__ or {})}


def _closure(function: types.FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _globals(function: types.FunctionType) -> dict[str, Any]:
    return {name: function.__globals__[name] for name in _read(function.__code__) if name in function.__globals__}


def _read(code: types.CodeType) -> list[str]:
    """Global names that the code reads, and the functions inside it."""
    names = [i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    inner = [name for part in code.co_consts if isinstance(part, types.CodeType) for name in _read(part)]
    return list(dict.fromkeys([*names, *inner]))


class _Nowhere:
    """Takes a pickle and keeps nothing of it."""

    def write(self, data: object) -> int:
        return 0


def _is_picklable(value: object) -> bool:
    import cloudpickle

    try:
        cloudpickle.dump(value, _Nowhere())
    except Exception:  # whatever the value's own code raises
        return False
    return True
