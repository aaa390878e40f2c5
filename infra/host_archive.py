"""What of ours travels to a host that has nothing of ours? One archive that Python runs as it is.

It holds what runs on a slice and the words, the public face, what a decorated function is made of, and the cloudpickle
that pickles here, with its metadata. Everything in it is source and needs the standard library only, so any Python that
this package supports can run it.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import io
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.own_code import ONE_AT_A_TIME

FILE = "host.pyz"
LARGEST_BYTES = 900 * 1024  # it travels in a ConfigMap of its own, which holds 1 MiB
_PACKAGE = "prefect_tpu"
# Whole rooms and modules, and what these import as they are loaded; the face names `resolve`, `run` and `every_host`.
_ROOTS = ("infra", "infra.host", "infra.training", "infra.accelerators", "flows", "flows.every_host", "flows.run")
_ROOMS = ("infra.host", "infra.training")
_lock = threading.Lock()  # each driver has a thread, and Python 3.11 cannot parse in two at once (CPython issue 106905)
_BORN = (1980, 1, 1, 0, 0, 0)  # the first moment an archive knows: equal code makes equal bytes
_MAIN = """\
import signal
import sys

if sys.version_info < (3, 11):
    sys.stderr.write("prefect-tpu: A host needs Python 3.11 or newer, and this image has %d.%d. Name another image.\\n"
                     % sys.version_info[:2])
    sys.exit(84)  # PAYLOAD_REFUSED; what stands in the log, Kubernetes takes as the last words
# The first process of a pod would not hear it yet; what is held back until somebody listens, it does.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

from prefect_tpu.infra.host.runner import main

sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostArchive:
    """The archive and its hash, by which it is named."""

    raw: bytes
    sha256: str


def host_archive() -> HostArchive:
    """`python3 host.pyz PLAN` runs a host. The same code gives the same bytes."""
    with _lock:
        return _made()


@cache
def _made() -> HostArchive:
    raw = pack({"__main__.py": _MAIN.encode(), **_ours(), **_cloudpickle()})
    return HostArchive(raw=raw, sha256=hashlib.sha256(raw).hexdigest())


def pack(files: dict[str, bytes]) -> bytes:
    """Stored, not compressed: what one zlib makes of the same bytes another may not."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _BORN)
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # as on Unix, wherever it is made
            archive.writestr(entry, content)
    return written.getvalue()


def _ours() -> dict[str, bytes]:
    face = importlib.util.find_spec("prefect_tpu")
    if face is None or face.origin is None:
        raise PlatformError("The files of prefect_tpu are not to be found. Install it again.")
    files = {"prefect_tpu/__init__.py": Path(face.origin).read_bytes()}
    for module, path in _closure().items():
        parts = module.split(".")
        place = [*parts, "__init__"] if path.name == "__init__.py" else parts
        files["/".join(place) + ".py"] = path.read_bytes()
    return files


def _closure() -> dict[str, Path]:
    """Module → file, of the roots and of all of ours that are loaded with them."""
    found: dict[str, Path] = {}
    waiting = [f"{_PACKAGE}.{root}" for root in _ROOTS]
    while waiting:
        module = waiting.pop()
        path = _file(module)
        if module in found or path is None:
            continue
        found[module] = path
        if module.removeprefix(f"{_PACKAGE}.") in _ROOMS:
            waiting += [f"{module}.{sibling.stem}" for sibling in path.parent.glob("*.py") if sibling != path]
        waiting += _imports(path)
    return found


def _imports(path: Path) -> Iterator[str]:
    """Names of ours, loaded with a module, that may be modules; what is none has no file."""
    with ONE_AT_A_TIME:
        tree = ast.parse(path.read_bytes())
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{_PACKAGE}."):
            yield from (str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith(f"{_PACKAGE}."))


def _file(module: str) -> Path | None:
    _, floor, *names = module.split(".")
    spec = importlib.util.find_spec(f"{_PACKAGE}.{floor}")
    if spec is None or spec.origin is None:
        return None
    place = Path(spec.origin).parent.joinpath(*names)
    candidates = (place / "__init__.py", place.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


def _cloudpickle() -> dict[str, bytes]:
    """Its code, its version and its licence."""
    distribution = metadata.distribution("cloudpickle")
    return {
        str(file): Path(str(file.locate())).read_bytes()
        for file in distribution.files or ()
        if file.suffix == ".py" or file.name == "METADATA" or "LICENSE" in file.name
    }
