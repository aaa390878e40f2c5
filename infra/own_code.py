"""Which code is the program's own? Source that its imports reach and that is not installed."""

from __future__ import annotations

import ast
import importlib.util
import pickletools
import sys
import sysconfig
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from prefect_tpu.infra.errors import UsageError

ONE_AT_A_TIME = threading.Lock()  # while source is read: CPython 3.11 refuses it now and then where two threads do


def siblings(path: Path) -> dict[str, bytes]:
    """The file and, from its folder, the modules and packages that it imports, directly or through others.

    An edit of a file that the program never imports leaves the payload as it is.
    """
    path = path.absolute()
    _check_imports(path)
    return _traced([path], path.parent)


def _check_imports(path: Path) -> None:
    """A file that runs by its path belongs to no package."""
    relative = next((n for n in parse(path).body if isinstance(n, ast.ImportFrom) and n.level), None)
    if relative is not None:
        raise UsageError(
            f"Program {path} has a relative import in line {relative.lineno}, which works only inside a package: name"
            " the program as pkg.mod:function from the folder that holds the package."
        )


def code_of(top: str) -> dict[str, bytes]:
    """A top-level module that is not installed, with what it imports beside it; nothing where it is installed."""
    spec = _find_spec(top)
    if spec.origin is None:  # a folder without `__init__.py`, or several that share a name
        folders = [Path(folder).absolute() for folder in spec.submodule_search_locations or ()]
        own = [_traced(_files_of(folder), folder.parent) for folder in folders if not _is_installed(folder)]
        return {name: raw for files in own for name, raw in files.items()}
    path = Path(spec.origin).absolute()
    if not path.exists() or _is_installed(path):
        return {}
    return _traced(_files_of(path.parent), path.parent.parent) if path.name == "__init__.py" else siblings(path)


def code_around(function: Callable[..., Any], pickles: Mapping[str, bytes]) -> dict[str, bytes]:
    """Modules that the pickles of a function and its arguments find again by name, and those beside its own file."""
    while isinstance(function, partial):
        function = function.func
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = _file_of(module)
    files: dict[str, bytes] = {}
    names = _named(pickles.values(), beside=file is None)
    if module is not None and file is not None and not _is_installed(file):
        if module.__name__ == "__main__":
            files = siblings(file)
        else:
            names.add(module.__name__.partition(".")[0])
    for name in sorted(names):
        files |= code_of(name)
    return files


def _file_of(module: ModuleType | None) -> Path | None:
    """None for a notebook's cells, and for a program that came by standard input: its file is called `<stdin>`."""
    file = getattr(module, "__file__", None)
    return Path(file) if file is not None and Path(file).exists() else None


def _named(pickles: Iterable[bytes], *, beside: bool) -> set[str]:
    """First parts of the names of own modules that pickles mention; more than they need does no harm.

    beside: those of the working folder too, though nothing has imported them yet: a notebook's cell has no file
        whose imports could be followed.
    """
    words = {
        argument.partition(".")[0]
        for pickled in pickles
        for _, argument, _ in pickletools.genops(pickled)
        if isinstance(argument, str)
    }
    here = Path(_working_folder())
    found = {word for word in words if _is_own(sys.modules.get(word))}
    if beside:
        found |= {word for word in words if word.isidentifier() and _lies_in(here, word)}
    return found - {"__main__"}


def _is_own(module: ModuleType | None) -> bool:
    """Whether it was imported from source that is not installed."""
    spec = getattr(module, "__spec__", None)
    if not isinstance(spec, ModuleSpec):
        return False
    places = [spec.origin] if spec.origin else [*(spec.submodule_search_locations or ())]
    return any(Path(place).exists() and not _is_installed(Path(place)) for place in places)


def _lies_in(folder: Path, name: str) -> bool:
    is_there = (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
    return is_there and name not in sys.stdlib_module_names and not _is_installed(folder)


def find_module(name: str) -> Path | None:
    """Where a module's source lies, seen from the working folder; None for what has no source file."""
    origin = _find_spec(name).origin
    return Path(origin) if origin and Path(origin).exists() else None


def parse(path: Path) -> ast.Module:
    """The file as Python reads it. Raises `UsageError` where it cannot."""
    try:
        # Python tells of them where the program runs.
        with ONE_AT_A_TIME, warnings.catch_warnings(action="ignore"):
            return ast.parse(path.read_bytes(), filename=str(path))
    except OSError as exc:
        raise UsageError(f"Program {path} cannot be read: {exc.strerror}. Check the path.") from exc
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        line = f" in line {exc.lineno}" if isinstance(exc, SyntaxError) and exc.lineno else ""
        why = exc.msg if isinstance(exc, SyntaxError) else str(exc) or "it is nested too deep"
        raise UsageError(f"Program {path} does not parse{line}: {why}. Correct it and run again.") from exc


def _traced(start: Iterable[Path], folder: Path) -> dict[str, bytes]:
    """The given files of a folder and what of that folder they import, by their names in it."""
    todo, files, names = list(start), set[Path](), set[str]()
    while todo:
        file = todo.pop()
        files.add(file)
        if file.suffix == ".py":
            new = _imported(file, folder) - names  # each is looked for once: a package may have thousands of files
            names |= new
            todo += {sibling for name in new for sibling in _module_files(folder, name)} - files
    return {_name(file, folder): file.read_bytes() for file in files}


def _name(file: Path, folder: Path) -> str:
    name = str(file.relative_to(folder))
    try:
        name.encode()
    except UnicodeEncodeError as exc:
        raise UsageError(f"The name of {name!r} in {folder} is no UTF-8, so it cannot travel: rename it.") from exc
    return name


def _imported(file: Path, folder: Path) -> frozenset[str]:
    """First parts of all module names that are imported anywhere in a file."""
    try:
        return _imported_by(file, _state(file))
    except UsageError:
        if file.parent == folder:
            raise
        return frozenset()  # deep in a package there may be templates and the like, which nobody imports


def _state(file: Path) -> tuple[int, ...]:
    """Another one for whoever changes the file; none where it cannot be had, which reading it will tell."""
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size


@lru_cache(maxsize=10_000)  # files
def _imported_by(file: Path, state: tuple[int, ...]) -> frozenset[str]:
    """Read once while a file stays as it is: a process that sends many jobs, as a sweep's, asks for each of them."""
    statements = list(_statements(parse(file)))
    plain = {alias.name for node in statements if isinstance(node, ast.Import) for alias in node.names}
    other = {node.module or "" for node in statements if isinstance(node, ast.ImportFrom) and not node.level}
    return frozenset(name.partition(".")[0] for name in plain | other) - {""}


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All of a file. What they are made of, which is most of a tree, is left out: no import is in there."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            todo += getattr(node, part, ())


def _module_files(folder: Path, name: str) -> list[Path]:
    package = folder / name
    if (package / "__init__.py").is_file():
        return list(_files_of(package))
    module = folder / f"{name}.py"
    if module.is_file():
        return [module]
    return list(_files_of(package)) if _is_namespace(package) else []


def _is_namespace(package: Path) -> bool:
    """Whether a folder without `__init__.py` is what its name imports: any module of that name goes before it."""
    if not package.is_dir() or package.name in sys.stdlib_module_names:
        return False
    spec = PathFinder.find_spec(package.name, [str(package.parent), *sys.path])
    return spec is not None and spec.origin is None and str(package) in (spec.submodule_search_locations or ())


def _files_of(package: Path) -> Iterator[Path]:
    for path in package.rglob("*"):
        hidden = any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(package).parts)
        if path.is_file() and not hidden:
            yield path


def _find_spec(name: str) -> ModuleSpec:
    """Where Python would find a module from the working folder. Imports the packages that hold it."""
    here = _working_folder()
    sys.path.insert(0, here)
    try:
        spec = importlib.util.find_spec(name)
    except Exception as exc:  # whatever the packages' own code raises
        raise UsageError(f"Module {name!r} cannot be found: {exc!r}. Run from the folder that holds it.") from exc
    finally:
        sys.path.remove(here)
    if spec is None:
        raise UsageError(f"Module {name!r} cannot be found from {here}. Run from the folder that holds it.")
    return spec


def _working_folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError as exc:
        raise UsageError("The working folder does not exist any more: change to another one.") from exc


def _is_installed(path: Path) -> bool:
    """In a folder that holds installed packages, or of this package itself."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    floors = ("prefect_tpu", "flows", "tasks", "blocks", "infra")  # an editable install has them beside a clone's rest
    places |= {str(Path(__file__).parents[1] / floor) for floor in floors}
    return any(path.absolute().is_relative_to(place) for place in places)
