"""What travels to the hosts? From what a person names to a `Program` and its payload.

The same files always make the same bytes: the payload's name is their hash.
A function's pickle does not; `fingerprint` finds out that it was sent before.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import io
import json
import platform
import re
import shutil
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Payload
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.fingerprint import fingerprint
from prefect_tpu.infra.job import Program, with_payload
from prefect_tpu.infra.storage import Storage

MOST_BYTES = 64 * 2**20
_FILE = re.compile(r"(?P<place>.+\.py):(?P<name>[A-Za-z_]\w*)")
_MODULE = re.compile(r"(?P<place>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can carry


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A program and the zip that travels with it; None where nothing does.

    code: says of a function's payload whether it is the same code, as its bytes do not; None for files.
    """

    program: Program
    payload: bytes | None
    code: str | None = None

    def send(self, storage: Storage) -> Program:
        """Put the payload into the job's folder, once. The program as it lies there: of a function the first pickle."""
        sha256 = self.program.payload
        if self.payload is None or sha256 is None:
            return self.program
        if self.code is None:
            storage.put_if_absent(layout.payload(sha256), self.payload)
            return self.program
        name = layout.first_payload(self.code)
        if storage.get(name) is None:
            storage.put_if_absent(layout.payload(sha256), self.payload)
            storage.put_if_absent(name, sha256.encode())
        first = storage.get(name)
        assert first is not None, "written above"
        return with_payload(self.program, first.decode())


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


def pack_function(function: Callable[..., Any], params: Mapping[str, Any]) -> Packed:
    """Pack a Python function by value, with the code of its own that it imports."""
    import cloudpickle

    try:
        pickled = cloudpickle.dumps(function)
    except Exception as exc:
        name = getattr(function, "__qualname__", repr(function))
        raise UsageError(
            f"Function {name!r} cannot be sent: {exc}. Open files, locks and connections inside the function instead."
        ) from exc
    versions = {"python": ".".join(platform.python_version_tuple()[:2]), "cloudpickle": cloudpickle.__version__}
    files = {
        Payload.FUNCTION: pickled,
        Payload.VERSIONS: json.dumps(versions, sort_keys=True).encode(),
        **_code_around(function),
    }
    program = Program(kind="function", target=getattr(function, "__qualname__", "function"), params=dict(params))
    code = hashlib.sha256(_zip({**files, Payload.FUNCTION: fingerprint(pickled).encode()})).hexdigest()
    return replace(_packed(program, files), code=code)


def packed_before(sha256: str, name: str, params: Mapping[str, Any]) -> Packed:
    """A function whose payload lies in the job's folder already."""
    return Packed(program=Program(kind="function", target=name, params=dict(params), payload=sha256), payload=None)


def _function_of_file(path: Path, name: str, params: Mapping[str, Any], arguments: Sequence[str]) -> Packed:
    _refuse_arguments(f"{path}:{name}", arguments)
    _check_function(path, name)
    program = Program(kind="file", target=f"{path.name}:{name}", params=dict(params))
    return _packed(program, _siblings(path))


def _function_of_module(place: str, name: str, params: Mapping[str, Any], arguments: Sequence[str]) -> Packed:
    _refuse_arguments(f"{place}:{name}", arguments)
    path = _find_module(place)
    if path is not None:
        _check_function(path, name)
    program = Program(kind="module", target=f"{place}:{name}", params=dict(params))
    return _packed(program, _code_of(place.partition(".")[0]))


def _script(path: Path, arguments: Sequence[str]) -> Packed:
    _parse(path)
    program = Program(kind="command", target="python", arguments=(path.name, *arguments))
    return _packed(program, _siblings(path))


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


# -- which code is the program's own ---------------------------------------------------------------


def _siblings(path: Path) -> dict[str, bytes]:
    """The file and, from its folder, the modules and packages that it imports, directly or through others.

    An edit of a file that the program never imports leaves the payload as it is.
    """
    folder = path.absolute().parent
    todo, files = [path.absolute()], set[Path]()
    while todo:
        file = todo.pop()
        files.add(file)
        if file.suffix == ".py":
            found = {sibling for name in _imported(_parse(file)) for sibling in _module_files(folder, name)}
            todo += found - files
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def _imported(tree: ast.Module) -> set[str]:
    """First parts of all module names that are imported anywhere in a file."""
    plain = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    other = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.partition(".")[0] for name in plain | other}


def _module_files(folder: Path, name: str) -> list[Path]:
    package = folder / name
    if (package / "__init__.py").is_file():
        return list(_files_of(package))
    module = folder / f"{name}.py"
    return [module] if module.is_file() else []


def _files_of(package: Path) -> Iterator[Path]:
    for path in package.rglob("*"):
        hidden = any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(package).parts)
        if path.is_file() and not hidden:
            yield path


def _code_of(top: str) -> dict[str, bytes]:
    """The code of a top-level module that is not installed; nothing where it is."""
    path = _find_module(top)
    if path is None or _is_installed(path):
        return {}
    if path.name == "__init__.py":
        base = path.parent.parent
        return {str(file.relative_to(base)): file.read_bytes() for file in _files_of(path.parent)}
    return _siblings(path)


def _code_around(function: Callable[..., Any]) -> dict[str, bytes]:
    """Modules that a pickled function finds again by name: those beside its own file."""
    module = sys.modules.get(getattr(function, "__module__", ""), None)
    file = getattr(module, "__file__", None)
    if file is None or _is_installed(Path(file)):
        return {}
    name = getattr(module, "__name__", "__main__")
    return _siblings(Path(file)) if name == "__main__" else _code_of(name.partition(".")[0])


def _find_module(name: str) -> Path | None:
    """Where a module's source lies, seen from the working folder; None for what has no source file."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, AttributeError, ValueError) as exc:
        raise UsageError(f"Module {name!r} cannot be found: {exc}. Run from the folder that holds it.") from exc
    finally:
        sys.path.pop(0)
    if spec is None:
        raise UsageError(f"Module {name!r} cannot be found from {Path.cwd()}. Run from the folder that holds it.")
    return Path(spec.origin) if spec.origin and Path(spec.origin).exists() else None


def _is_installed(path: Path) -> bool:
    """In a folder that holds installed packages, or of this package itself."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    floors = ("prefect_tpu", "flows", "tasks", "blocks", "infra")  # an editable install has them beside a clone's rest
    places |= {str(Path(__file__).parents[1] / floor) for floor in floors}
    return any(path.absolute().is_relative_to(place) for place in places)


# -- is it what its name says ----------------------------------------------------------------------


def _check_function(path: Path, name: str) -> None:
    tree = _parse(path)
    if name not in _names(tree):
        functions = sorted(n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
        raise UsageError(f"{path} has no function {name!r}. It has: {', '.join(functions) or 'none'}.")


def _names(tree: ast.Module) -> set[str]:
    """What the module's top level binds; a name may also come from an import or an assignment."""
    stores = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    imported = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
    defined = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return stores | imported | defined


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except OSError as exc:
        raise UsageError(f"Program {path} cannot be read: {exc.strerror}. Check the path.") from exc
    except (SyntaxError, ValueError) as exc:
        raise UsageError(f"Program {path} does not parse: {exc}.") from exc


def _refuse_arguments(target: str, arguments: Sequence[str]) -> None:
    if arguments:
        raise UsageError(f"{target!r} is a function: give it parameters (name=value), not arguments.")
