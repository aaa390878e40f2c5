"""Can this function be sent with these arguments? Their pickles, or what in them cannot travel, by its name."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import platform
import types
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from prefect_tpu.infra.contract import Payload
from prefect_tpu.infra.culprits import Culprit, culprit, kind, used_by
from prefect_tpu.infra.errors import UsageError

MOST_BYTES = 64 * 2**20
ASYNCHRONOUS = "Function {name!r} is asynchronous: give a plain one that calls `asyncio.run({name}(...))`."
GENERATOR = "Function {name!r} is a generator, which does nothing until somebody asks for its values: return a list."
_NO_FILE = "<dynamic-code>"  # what cloudpickle 3.1.3 says of all code
_INSIDE = "Open files, locks and connections inside the function instead."
_AS_DATA = (
    "Save what is large to a file and name it in `data`: each host finds it in `prefect_tpu.info().data`, and it is"
    " copied once, not with each call."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What a function is called with, beside its JSON parameters."""

    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def by_name(self, function: Callable[..., Any]) -> dict[str, Any]:
        """As the function calls them; those without a name of their own by their place."""
        try:
            return dict(inspect.signature(function).bind(*self.args, **self.kwargs).arguments)
        except (TypeError, ValueError):
            return {**{str(place): value for place, value in enumerate(self.args, start=1)}, **self.kwargs}


def check_callable(function: object) -> None:
    """Raise `UsageError` for what is no plain function, or like one."""
    name, called = name_of(function), getattr(function, "__call__", None)  # noqa: B004 -- asked of its own kind below
    if inspect.iscoroutine(function) or inspect.isgenerator(function) or inspect.isasyncgen(function):
        raise UsageError(f"The program is a {kind(function)}, made by a call: give the function itself, uncalled.")
    if isinstance(function, classmethod) or not callable(function):
        raise UsageError(f"The program is {function!r}, which cannot be called: give a function, or the name of one.")
    if isinstance(function, type):
        raise UsageError(f"{name!r} is a class: give a function that makes one and returns what you want of it.")
    if any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in (function, called)):
        raise UsageError(ASYNCHRONOUS.format(name=name))
    if any(map(inspect.isgeneratorfunction, (function, called))):
        raise UsageError(GENERATOR.format(name=name))


def name_of(function: object) -> str:
    """What people call it."""
    while isinstance(function, partial):
        function = function.func
    found = getattr(function, "__qualname__", None)
    name = found if isinstance(found, str) else type(function).__qualname__
    return name.rpartition("<locals>.")[2]


def pickles(function: Callable[..., Any], arguments: Arguments | None) -> dict[str, bytes]:
    """The files of a payload that carry the function itself and what it is called with.

    Raises `UsageError`, with the name of what cannot be pickled or is too large.
    """
    files = {Payload.FUNCTION: _function(function)}
    return files if arguments is None else {**files, Payload.ARGUMENTS: _arguments(function, arguments)}


def versions() -> bytes:
    """Which Python and cloudpickle write the pickles."""
    import cloudpickle

    found = {"python": ".".join(platform.python_version_tuple()[:2]), "cloudpickle": cloudpickle.__version__}
    return json.dumps(found, sort_keys=True).encode()


def _function(function: Callable[..., Any]) -> bytes:
    name, sink = name_of(function), _Sink()
    try:
        sink.take(function)
    except Exception as exc:
        found = culprit(function, used_by(function))
        uses = "" if found is None else f"it uses {found.part!r}{_which(found)}: "
        raise UsageError(f"Function {name!r} cannot be sent: {uses}{_sentence(exc)} {_INSIDE}") from exc
    if sink.size > MOST_BYTES:
        raise UsageError(
            f"Function {name!r} is {_mib(sink.size)} with what it uses, at most {_mib(MOST_BYTES)} may travel."
            f"{_largest(used_by(function))} {_AS_DATA}"
        )
    return sink.getvalue()


def _arguments(function: Callable[..., Any], arguments: Arguments) -> bytes:
    name, sink = name_of(function), _Sink()
    try:
        sink.take((tuple(arguments.args), dict(arguments.kwargs)))
    except Exception as exc:
        found = culprit(arguments, arguments.by_name(function))
        what = "An argument" if found is None else f"Argument {found.part!r}"
        which = "" if found is None else _which(found)
        raise UsageError(f"{what} of {name!r}{which} cannot be sent: {_sentence(exc)} {_INSIDE}") from exc
    if sink.size > MOST_BYTES:
        raise UsageError(
            f"The arguments of {name!r} are {_mib(sink.size)}, at most {_mib(MOST_BYTES)} may travel."
            f"{_largest(arguments.by_name(function))} {_AS_DATA}"
        )
    return sink.getvalue()


class _Sink(io.BytesIO):
    """Keeps a pickle as far as it may travel, and counts the rest: it may be larger than memory."""

    size = 0

    def write(self, data: Any) -> int:
        written = memoryview(data).nbytes
        self.size += written
        if self.size <= MOST_BYTES:
            super().write(data)
        return written

    def take(self, value: object) -> None:
        _pickler()(self).dump(value)


@cache
def _pickler() -> Any:
    """Cloudpickle's, but code keeps the name of its file: a traceback on a host is of use only with that."""
    import cloudpickle

    usual = cloudpickle.Pickler.dispatch_table

    def reduce(code: types.CodeType) -> Any:
        made, parts = usual[types.CodeType](code)
        return made, tuple(_file(code) if part in (_NO_FILE, code.co_filename) else part for part in parts)

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        dispatch_table = ChainMap({types.CodeType: reduce}, usual)

    return Pickler


def _file(code: types.CodeType) -> str:
    """Its name without its folder, so that code that was moved is the same; cells have a new file in each kernel."""
    path = Path(code.co_filename)
    return path.name if path.exists() else "<cell>"


def _largest(parts: Mapping[str, Any]) -> str:
    """A sentence on the part that is most of it; empty where none can be told."""
    sizes: dict[str, int] = {}
    for name, part in parts.items():
        sink = _Sink()
        with contextlib.suppress(Exception):  # its owner may leave it at home: then it is none of the whole
            sink.take(part)
            sizes[name] = sink.size
    if not sizes:
        return ""
    name = max(sizes, key=lambda name: sizes[name])
    return f" {name!r} is {_mib(sizes[name])} of it."


def _which(found: Culprit) -> str:
    """What it is, and where in its part."""
    what = _a(kind(found.value))
    return f" ({what})" if found.path == found.part else f" ({found.path} is {what})"


def _a(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _sentence(exc: Exception) -> str:
    text = str(exc).strip() or type(exc).__name__
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _mib(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"
