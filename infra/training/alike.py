"""Do all hosts run the same code? Asked once, when they have met."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from importlib import metadata
from pathlib import Path
from types import ModuleType

from prefect_tpu.infra.errors import CouldNotJoin, HostsDiffer
from prefect_tpu.infra.training import trail
from prefect_tpu.infra.training.board import HEARD_WITHIN, Board, hear, open_board
from prefect_tpu.infra.training.context import context
from prefect_tpu.infra.training.trail import Mark

PATIENCE = 60.0  # seconds for the leader's word, when all have met
# What changes the programs that JAX makes. Where a compiler writes files to may differ.
_SETTINGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION")
_PLACES = ("--xla_dump", "--xla_log")
_VERDICT = "alikeness"
_ADVICE = (
    "Programs that differ wait for each other in collectives for ever: give all hosts the same image, packages, files"
    " and variables."
)


def check_alike() -> None:
    """Return where all hosts run the same program in the same versions. Every host that JAX has met calls it, once.

    Raises:
        CouldNotJoin: a host fell silent meanwhile.
        HostsDiffer: they do not; the message names the host and what differs.
    """
    told = open_board()
    if told is not None:
        compare(told, facts(), PATIENCE)


def compare(told: Board, own: dict[str, str], patience: float) -> None:
    """The same, of what this host says of itself; `patience` in seconds."""
    told.put(f"alike/{told.host}", json.dumps(own))
    if told.host == 0:
        told.put(_VERDICT, json.dumps(_judged(told, patience)))
    found = told.wait(_VERDICT, patience + HEARD_WITHIN)
    if found is None:
        raise CouldNotJoin(
            f"Host {told.host} did not hear from the leader whether all hosts run the same program: the leader has"
            " ended since they met. Its log says why."
        )
    silent, differs = json.loads(found)
    if silent or differs:
        hear(told, _VERDICT, hosts=told.hosts - len(silent))
    if silent:
        raise CouldNotJoin(
            f"Since all met, nothing was heard of {trail.listed(silent)} for {patience:g} s. Look at the logs there."
        )
    if differs:
        raise HostsDiffer(f"{differs}. {_ADVICE}")


def _judged(told: Board, patience: float) -> tuple[list[int], str]:
    """On the leader: who is silent; else what `difference` finds."""
    until = time.monotonic() + patience
    words = {host: told.wait(f"alike/{host}", until - time.monotonic()) for host in range(told.hosts)}
    silent = [host for host, word in words.items() if word is None]
    return silent, "" if silent else difference({host: json.loads(word or "{}") for host, word in words.items()})


def difference(said: dict[int, dict[str, str]]) -> str:
    """Which host differs in what, as a sentence without its end; empty where none does."""
    for name in sorted({name for facts in said.values() for name in facts}):
        way = {host: facts.get(name, "nothing") for host, facts in said.items()}
        found = trail.parting({host: [Mark(call=1, step=0, way=text)] for host, text in way.items()})
        if found is not None:
            usual = next(text for host, text in sorted(way.items()) if host not in found.hosts)
            theirs = way[found.hosts[0]]
            return (
                f"Not all hosts run the same program: {name} is {theirs} on {trail.listed(found.hosts)}, else {usual}"
            )
    return ""


def facts() -> dict[str, str]:
    """What must be the same on every host."""
    return {
        "Python": platform.python_version(),
        **{f"the version of {name}": _version(name) for name in ("jax", "jaxlib", "prefect-tpu")},
        **{f"the code of {path.name}": _hash(path) for path in _files()},
        **{name: _flags(os.environ[name]) for name in _SETTINGS if os.environ.get(name)},
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # what our runner brought along is the same everywhere
        return "unknown"


def _files() -> list[Path]:
    """The program's own file: what Python was started with, or what our runner has loaded in its place."""
    here = context()
    target = here.plan.program.target.rpartition(":")[0] if here is not None else ""
    names = ("__main__", Path(target).stem if target.endswith(".py") else target)
    files = (_file(sys.modules[name]) for name in names if name in sys.modules)
    return [path for path in files if path is not None]


def _file(module: ModuleType) -> Path | None:
    path = Path(getattr(module, "__file__", None) or "")
    return path if path.is_file() else None


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _flags(text: str) -> str:
    """Without the places that it names."""
    return " ".join(sorted(word for word in text.split() if not word.startswith(_PLACES)))
