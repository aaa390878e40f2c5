"""What travels to the hosts? From what a person names to a `Program` and its payload.

The same files always make the same bytes: the payload's name is their hash.
A function's pickle does not; `fingerprint` finds out that it was sent before.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Payload
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.fingerprint import fingerprint
from prefect_tpu.infra.job import Program, with_payload
from prefect_tpu.infra.own_code import code_around, code_of, find_module, parse, siblings
from prefect_tpu.infra.pickling import (
    ASYNCHRONOUS,
    GENERATOR,
    MOST_BYTES,
    Arguments,
    check_callable,
    name_of,
    pickles,
    versions,
)
from prefect_tpu.infra.signatures import Signature, check_params, in_source, is_plain_value, of_function
from prefect_tpu.infra.storage import Storage

_FILE = re.compile(r"(?P<place>.+\.py):(?P<name>[A-Za-z_]\w*)")
_MODULE = re.compile(r"(?P<place>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")
_MORE_NAMES = frozenset({"*", "__getattr__"})  # where a module has these, its source does not tell all that it has
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can carry


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A program and the zip that travels with it; None where nothing does.

    code: says of a function's payload whether it is the same code, as its bytes do not; None for files.
    """

    program: Program
    payload: bytes | None
    code: str | None = None

    def before(self, storage: Storage) -> Program:
        """The program as it lies in the job's folder, where it was sent before: of a function the first pickle."""
        first = None if self.code is None else storage.get(layout.first_payload(self.code))
        return self.program if first is None else with_payload(self.program, first.decode(errors="replace"))

    def send(self, storage: Storage) -> Program:
        """Put the payload into the job's folder, once. The program as it lies there.

        What was damaged there is mended. Raises `PlatformError` where it cannot be, because this process pickles the
        function otherwise than the one that sent it first.
        """
        program = self.before(storage)
        if self.payload is None or program.payload is None:
            return program
        if not _lies_there(storage, program.payload):
            if program.payload != self.program.payload:
                raise _beyond_mending(storage, program)
            storage.put(layout.payload(program.payload), self.payload)
        if self.code is not None:
            storage.put_if_absent(layout.first_payload(self.code), program.payload.encode())
        return self.before(storage)


def _lies_there(storage: Storage, sha256: str) -> bool:
    raw = storage.get(layout.payload(sha256))
    return raw is not None and hashlib.sha256(raw).hexdigest() == sha256


def _beyond_mending(storage: Storage, program: Program) -> PlatformError:
    return PlatformError(
        f"The payload of {program.target!r}, {layout.payload(program.payload or '')} in {storage.url}, is missing or"
        " was changed, and what this process would send is not byte for byte the same. Put a copy of it back, or run"
        " the job under another name."
    )


def pack(target: str, params: Mapping[str, Any], arguments: Sequence[str]) -> Packed:
    """Pack `path.py:function`, `pkg.mod:function`, a script `path.py` or a command.

    Raises `UsageError` where it is missing, does not parse or has no such function.
    """
    if found := _FILE.fullmatch(target):
        return _function_of_file(Path(found["place"]), found["name"], params, arguments)
    if found := _MODULE.fullmatch(target):
        return _function_of_module(found["place"], found["name"], params, arguments)
    if params:
        raise UsageError(f"{target!r} is a script or command: give it arguments after '--', not parameters.")
    if target.endswith(".py"):
        return _script(Path(target), arguments)
    return _command(target, arguments)


def pack_function(
    function: Callable[..., Any], params: Mapping[str, Any], arguments: Arguments | None = None
) -> Packed:
    """Pack a Python function by value, with what it is called with and the code of its own that it imports."""
    check_callable(function)
    signature = of_function(function) if arguments is None else None
    check_params(signature, params)
    program = Program(  # refuses what is no JSON
        kind="function", target=name_of(function), params=dict(params), default_steps=_default_steps(signature)
    )
    sent = pickles(function, arguments)
    files = {Payload.VERSIONS: versions(), **code_around(function, sent)}
    packed = _packed(program, {**files, **sent})  # first: it refuses what is too large to look at
    said = {name: fingerprint(raw).encode() for name, raw in sent.items()}
    return replace(packed, code=hashlib.sha256(_zip({**files, **said})).hexdigest())


def packed_before(sha256: str, name: str, params: Mapping[str, Any]) -> Packed:
    """A function whose payload lies in the job's folder already."""
    return Packed(program=Program(kind="function", target=name, params=dict(params), payload=sha256), payload=None)


def _function_of_file(path: Path, name: str, params: Mapping[str, Any], arguments: Sequence[str]) -> Packed:
    _refuse_arguments(f"{path}:{name}", arguments)
    signature = _checked(path, name, params)
    target, steps = f"{path.name}:{name}", _default_steps(signature)
    program = Program(kind="file", target=target, params=dict(params), default_steps=steps)
    return _packed(program, siblings(path))


def _function_of_module(place: str, name: str, params: Mapping[str, Any], arguments: Sequence[str]) -> Packed:
    _refuse_arguments(f"{place}:{name}", arguments)
    path = find_module(place)
    steps = None if path is None else _default_steps(_checked(path, name, params))
    program = Program(kind="module", target=f"{place}:{name}", params=dict(params), default_steps=steps)
    return _packed(program, code_of(place.partition(".")[0]))


def _script(path: Path, arguments: Sequence[str]) -> Packed:
    _refuse_idle(path, parse(path))
    program = Program(kind="command", target="python", arguments=(path.name, *arguments))
    return _packed(program, siblings(path))


def _refuse_idle(path: Path, tree: ast.Module) -> None:
    """Whoever forgot the function's name would see a job that succeeds and has done nothing."""
    functions = sorted(n.name for n in tree.body if isinstance(n, ast.FunctionDef))
    if functions and all(map(_only_defines, tree.body)):
        name = "main" if "main" in functions else functions[0]
        raise UsageError(
            f"Script {path} only defines functions ({', '.join(functions)}) and calls none: name the one to run, such"
            f" as {path}:{name}."
        )


def _only_defines(statement: ast.stmt) -> bool:
    """A call, wherever it stands, may be the script's work; what is imported may work too, but beside functions?"""
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr):
        return not any(isinstance(node, ast.Call | ast.Await) for node in ast.walk(statement))
    return isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _command(word: str, arguments: Sequence[str]) -> Packed:
    if shutil.which(word) is None:
        raise UsageError(
            f"{word!r} is no program: name path.py:function, pkg.mod:function, a script path.py, or a command on PATH."
        )
    return Packed(program=Program(kind="command", target=word, arguments=tuple(arguments)), payload=None)


def _packed(program: Program, files: Mapping[str, bytes]) -> Packed:
    if not files:
        return Packed(program=program, payload=None)
    raw = _zip(files)
    return Packed(program=with_payload(program, hashlib.sha256(raw).hexdigest()), payload=raw)


def _zip(files: Mapping[str, bytes]) -> bytes:
    size = sum(map(len, files.values()))
    if size > MOST_BYTES:
        raise UsageError(
            f"The code that would travel is {size // 2**20} MiB, at most {MOST_BYTES // 2**20} may."
            " Keep data out of the packages beside the program and stage it with `data`."
        )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), files[name], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _checked(path: Path, name: str, params: Mapping[str, Any]) -> Signature | None:
    signature = function_in(path, name)
    check_params(signature, params)
    return signature


def function_in(path: Path, name: str) -> Signature | None:
    """What a module's function takes; None where only running it would tell.

    Raises `UsageError` where the module has no such function, or one that a call alone does not carry out.
    """
    tree = parse(path)
    if any(isinstance(node, ast.AsyncFunctionDef) and node.name == name for node in tree.body):
        raise UsageError(ASYNCHRONOUS.format(name=name))
    names = _names(tree)
    if name not in names and not names & _MORE_NAMES:
        functions = sorted(n.name for n in tree.body if isinstance(n, ast.FunctionDef))
        raise UsageError(f"{path} has no function {name!r}. It has: {', '.join(functions) or 'none'}.")
    if is_plain_value(tree, name):
        raise UsageError(f"{name!r} in {path} is a value, not a function: name one that can be called.")
    signature = in_source(tree, name)
    if signature is not None and _is_generator(tree, name):
        raise UsageError(GENERATOR.format(name=name))
    return signature


def _is_generator(tree: ast.Module, name: str) -> bool:
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return any(isinstance(n, ast.Yield | ast.YieldFrom) for node in found for n in _outside_functions(node))


def _default_steps(signature: Signature | None) -> int | None:
    """How many steps a function takes where nobody says it: people like to know how long it will take."""
    steps = None if signature is None else signature.default_of("steps")
    return steps if isinstance(steps, int) else None


def _names(tree: ast.Module) -> set[str]:
    """What the module's top level binds; a name may also come from an import or an assignment."""
    outside = list(_outside_functions(tree))
    stores = {n.id for n in outside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    imported = {a.asname or a.name for n in outside if isinstance(n, ast.ImportFrom) for a in n.names}
    defined = {n.name for n in outside if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return stores | imported | defined


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """Everything below a node that runs when the module is imported, the definitions themselves included."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _outside_functions(child)


def _refuse_arguments(target: str, arguments: Sequence[str]) -> None:
    if arguments:
        raise UsageError(f"{target!r} is a function: give it parameters (name=value), not arguments.")
