"""Where is Google's TPU compiler on this machine? Found, or fetched once into an environment of its own and kept."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import PlatformError, UsageError

READY = "ready"  # in an environment, once all of it is there
LIBRARY = "libtpu.so"
LAST_WORDS = 2000  # characters of what an installer says at its end

# Asked in the environment itself, without loading JAX: what it has, and where.
_ASK = """
import importlib.util, json
from importlib import metadata
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
spec = importlib.util.find_spec("libtpu")
folder = spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else ""
print(json.dumps({"jax": version("jax"), "libtpu": version("libtpu"), "folder": folder}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """Google's compiler, as it is loaded into a program's own interpreter.

    library: the path of libtpu.
    jax: the version of JAX that it belongs to, which is the program's own.
    """

    library: str
    jax: str
    libtpu: str

    @property
    def versions(self) -> dict[str, str]:
        return {"jax": self.jax, "libtpu": self.libtpu}


def find_compiler(say: Callable[[str], None]) -> Compiler:
    """The compiler for the JAX that programs have here. Where there is none it is fetched, which takes minutes.

    Args:
        say: is told of that before.

    Raises:
        UsageError: there is no JAX here, or another version than where the compiler is.
        PlatformError: it cannot be fetched.
    """
    jax = _own_jax()
    if named := os.environ.get(Env.COMPILER_PYTHON):
        return _of(named, jax, f"{Env.COMPILER_PYTHON} names {named}, whose")
    if importlib.util.find_spec("libtpu") is not None:
        return _of(sys.executable, jax, "This environment's")
    folder = own_folder(jax, os.environ)
    with _locked(folder):
        if not (folder / READY).exists():
            say(
                f"Google's TPU compiler is fetched into {folder}: 700 MB, some minutes, once for jax {jax} on this"
                " machine."
            )
            _make(folder, jax)
    return _of(str(folder / "bin" / "python"), jax, f"The compiler's environment {folder} was changed: its")


def own_folder(jax: str, environment: Mapping[str, str]) -> Path:
    """Of the environment that is made here, by the versions of JAX and Python (XDG base directories)."""
    base = environment.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    python = ".".join(map(str, sys.version_info[:2]))
    return Path(base, "prefect-tpu", "compiler", f"jax-{jax}-python-{python}")


def _own_jax() -> str:
    try:
        return metadata.version("jax")
    except metadata.PackageNotFoundError as exc:
        raise UsageError(
            f"There is no JAX beside prefect-tpu in {sys.prefix}, and the program is run here up to its step: install"
            " what it needs into the same environment."
        ) from exc


def _of(python: str, jax: str, whose: str) -> Compiler:
    """What an environment has. Raises `UsageError` where it is no compiler for this JAX."""
    found = _seen_beside(python) or _asked(python, whose)
    library = os.path.join(found["folder"], LIBRARY)
    if not found["libtpu"] or not os.path.exists(library):
        raise UsageError(f"{whose} Python has no libtpu: `pip install 'jax[tpu]=={jax}'` brings it.")
    if found["jax"] != jax:
        raise UsageError(
            f"{whose} JAX is {found['jax'] or 'missing'}, and the program's is {jax}: a compiler"
            f" belongs to one version of it. Install jax[tpu]=={jax} there, or jax=={found['jax']} here."
        )
    return Compiler(library=library, jax=jax, libtpu=found["libtpu"])


def _seen_beside(python: str) -> dict[str, str] | None:
    """What lies beside an interpreter in a virtual environment of its own: seen at once. None where it is none."""
    for folder in Path(python).absolute().parents[1].glob("lib/python3*/site-packages"):
        versions = {one.name: one.version for one in metadata.distributions(path=[str(folder)])}
        if "jax" in versions and (folder / "libtpu").is_dir():
            return {"jax": versions["jax"], "libtpu": versions.get("libtpu", ""), "folder": str(folder / "libtpu")}
    return None


def _asked(python: str, whose: str) -> dict[str, str]:
    try:
        done = subprocess.run([python, "-P", "-c", _ASK], capture_output=True, text=True, timeout=60, check=True)
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as exc:
        raise UsageError(f"{whose} Python does not run: {exc}. Name an interpreter that has jax[tpu].") from exc
    return found


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time makes it; one that is killed leaves no lock, and what it had is made anew."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = open(folder.with_name(f"{folder.name}.lock"), "w")  # noqa: SIM115
    except OSError as exc:
        raise PlatformError(
            f"The compiler's folder {folder.parent} cannot be made: {exc.strerror}. Set XDG_CACHE_HOME to another."
        ) from exc
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(folder: Path, jax: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)], folder)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"jax[tpu]=={jax}"]
    _run([str(folder / "bin" / "python"), *install], folder)
    (folder / READY).touch()


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-LAST_WORDS:]
        raise PlatformError(
            f"The compiler's environment {folder} cannot be made: {' '.join(command)} ended with {done.returncode}."
            f" Look at what it says, and run this again; or make one yourself and name its interpreter as"
            f" {Env.COMPILER_PYTHON}.\n{said}"
        )
