"""Where is Google's TPU compiler on this machine? Found, or fetched once into an environment of its own and kept."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from prefect_tpu.infra.compiler.fetching import PATIENCE_SECONDS, is_ready, make_once
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import UsageError

LIBRARY = "libtpu.so"

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


def find_compiler(say: Callable[[str], None], patience: float = PATIENCE_SECONDS) -> Compiler:
    """The compiler for the JAX that programs have here. Where there is none it is fetched, which takes minutes.

    Args:
        say: is told of that before, and where another process fetches it.
        patience: seconds for each command that makes its environment, and for such a process.

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
    if not is_ready(folder):  # else nothing is written: it may lie where this user cannot
        make_once(folder, jax, say, patience)
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
    for folder in Path(python).absolute().parent.parent.glob("lib/python3*/site-packages"):
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
