"""Builds the programs of a Kubernetes control plane from pinned Go modules, once per machine.

    python tests/cluster/control_plane/build.py            build what is missing; says where it lies
    python tests/cluster/control_plane/build.py --where    only says where it would lie

They lie outside the tree, in `$XDG_CACHE_HOME/prefect-tpu/control-plane/<hash>`, named by what they are made of: the
modules' pins and this file. A folder with the file `complete` is complete; one without is built anew. Two builders of
one folder wait for each other. Needs the standard library alone, and Go where something is missing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE_VARIABLE = "PREFECT_TPU_CONTROL_PLANE_CACHE"
COMPLETE = "complete"


class CannotBuild(Exception):
    """The programs are not there and cannot be built; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A folder with a go.mod, and what is built from it.

    versions: the module whose version the programs report, and the linker's names for it.
    manifests: for each program with custom resources, the module whose `config/components` describe them.
    """

    folder: Path
    packages: tuple[str, ...]
    versions: tuple[str, str]
    manifests: tuple[tuple[str, str], ...] = ()


MODULES = (
    Module(
        folder=HERE / "go/kubernetes",
        packages=(
            "k8s.io/kubernetes/cmd/kube-apiserver",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-scheduler",
            "sigs.k8s.io/jobset",
            "go.etcd.io/etcd/server/v3",
        ),
        versions=("k8s.io/kubernetes", "k8s.io/component-base/version"),
        manifests=(("jobset", "sigs.k8s.io/jobset"),),
    ),
    Module(
        folder=HERE / "go/kueue",
        packages=("sigs.k8s.io/kueue/cmd/kueue",),
        versions=("sigs.k8s.io/kueue", "sigs.k8s.io/kueue/pkg/version"),
        manifests=(("kueue", "sigs.k8s.io/kueue"),),
    ),
)


def cache() -> Path:
    """The folder of all control planes of this user."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prefect-tpu/control-plane"


def place() -> Path:
    """Where the control plane of this tree lies, built or not."""
    made_of = [module.folder / name for module in MODULES for name in ("go.mod", "go.sum")]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in [*made_of, Path(__file__)]))
    return cache() / digest.hexdigest()[:16]


def ready() -> Path:
    """The folder of a complete control plane.

    Raises:
        CannotBuild: It is not built.
    """
    found = place()
    if not (found / COMPLETE).exists():
        raise CannotBuild(f"The Kubernetes control plane is not built in {found}: run `make control-plane`.")
    return found


def build() -> Path:
    """Build what is missing; whoever comes second waits and finds it.

    Raises:
        CannotBuild: There is no Go that can.
    """
    target = place()
    target.parent.mkdir(parents=True, exist_ok=True)
    if (target / COMPLETE).exists():
        return target
    with _alone(target):
        if not (target / COMPLETE).exists():
            _check_go()
            _build_beside(target)
    return target


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _check_go() -> None:
    wanted = max(_wanted_go(module) for module in MODULES)
    version = f"{wanted[0]}.{wanted[1]}"
    if not shutil.which("go"):
        raise CannotBuild(
            f"The control plane is built from Go modules, and there is no `go` on the path. Install Go {version} or"
            f" newer (with a network or a filled module cache), then run `make control-plane`."
        )
    asked = subprocess.run(["go", "env", "GOVERSION"], cwd=MODULES[0].folder, capture_output=True, text=True)
    if asked.returncode:
        raise CannotBuild(f"Building the control plane needs Go {version} or newer: {asked.stderr.strip()}")


def _wanted_go(module: Module) -> tuple[int, int]:
    found = re.search(r"^go (\d+)\.(\d+)", (module.folder / "go.mod").read_text(), re.MULTILINE)
    assert found, f"{module.folder}/go.mod names no version of Go"
    return int(found[1]), int(found[2])


def _build_beside(target: Path) -> None:
    """Build into a folder of its own, then give it its name: nobody ever sees half of it."""
    beside = Path(tempfile.mkdtemp(prefix="building-", dir=target.parent))
    try:
        (beside / "bin").mkdir()
        for module in MODULES:
            _build_module(module, beside)
        (beside / "bin/server").rename(beside / "bin/etcd")  # Go names it after its module's folder
        (beside / COMPLETE).write_text(_go(MODULES[0], "version") + "\n")
        beside.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)  # what lies there without its marker
        beside.rename(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _build_module(module: Module, out: Path) -> None:
    _say(f"building {', '.join(package.rsplit('/', 1)[-1] for package in module.packages)}")
    started = time.monotonic()
    flags = ["-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {_stamp(module)}"]
    built = subprocess.run(["go", "build", *flags, "-o", f"{out}/bin/", *module.packages], cwd=module.folder)
    if built.returncode:
        raise CannotBuild(f"`go build` ended with {built.returncode} in {module.folder}; what it said is above.")
    for name, path in module.manifests:
        components = Path(_go(module, "list", "-m", "-f", "{{.Dir}}", path)) / "config/components"
        _copy(components / "crd/bases", out / name / "crds")
        _copy(components / "webhook", out / name / "webhooks")
    _say(f"done after {time.monotonic() - started:.0f} s")


def _copy(source: Path, target: Path) -> None:
    """The files of a folder of Go's module cache, which is read-only, as files of our own."""
    target.mkdir(parents=True)
    for path in sorted(source.glob("*.yaml")):
        (target / path.name).write_bytes(path.read_bytes())


def _stamp(module: Module) -> str:
    """Without these the programs report a placeholder for their version, which their clients then read."""
    path, package = module.versions
    version = _go(module, "list", "-m", "-f", "{{.Version}}", path)
    if package.endswith("kueue/pkg/version"):
        return f"-X {package}.GitVersion={version}"
    minor = version.split(".")[1]
    parts = {"gitVersion": version, "gitMajor": "1", "gitMinor": minor, "gitCommit": "module", "gitTreeState": "clean"}
    return " ".join(f"-X {package}.{name}={value}" for name, value in parts.items())


def _go(module: Module, *words: str) -> str:
    asked = subprocess.run(["go", *words], cwd=module.folder, stdout=subprocess.PIPE, text=True)
    if asked.returncode:
        raise CannotBuild(f"`go {' '.join(words)}` ended with {asked.returncode} in {module.folder}.")
    return asked.stdout.strip()


def _say(text: str) -> None:
    sys.stderr.write(f"control plane: {text}\n")
    sys.stderr.flush()


def main(words: list[str]) -> int:
    if words == ["--where"]:
        sys.stdout.write(f"{place()}\n")
        return 0
    try:
        _say(f"complete in {build()}")
    except CannotBuild as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
