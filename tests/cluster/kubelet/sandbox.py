"""How a container's process is kept to itself: in namespaces where this machine allows it, else by rewritten paths.

In namespaces a container has a root of its own, laid over this machine's: what it writes is thrown away with it, homes,
temporary files and this clone are not seen, volumes lie where the manifest says, its process is process 1 and takes
everything it started with it. Elsewhere paths and names in its command and environment are replaced.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from control_plane import dies_with_parent

from kubelet.environment import HOME
from kubelet.volumes import Mount

WORK = "/workspace"
CLONE = Path(__file__).resolve().parents[3]
HIDDEN = (Path("/tmp"), Path("/home"), Path("/root"), CLONE)
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
SHARED_MEMORY = "64m"  # of a container to which no volume is mounted there
_NEW = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--propagation", "private")
_AS_ROOT = ("--user", "--map-root-user")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What is started.

    folder: of this container alone, empty. visible: folders of this machine that its image needs.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    visible: Sequence[Path]
    mounts: Sequence[Mount]
    hostname: str
    hosts: str
    work: str | None


class Sandbox(Protocol):
    """One of the two ways."""

    def start(self, launch: Launch) -> subprocess.Popen[bytes]:
        """Start it; its output comes by one pipe."""

    def entering(self, process: subprocess.Popen[bytes], command: Sequence[str]) -> list[str]:
        """The command by which another one is run inside."""

    def signal(self, process: subprocess.Popen[bytes], number: int) -> None:
        """Send its first process a signal; SIGKILL reaches all of them."""

    @property
    def has_names(self) -> bool:
        """Whether host names resolve inside."""


class Namespaces:
    """A root, process ids and a host name of its own, for root or by a user namespace."""

    has_names = True

    def __init__(self, as_user: Sequence[str]) -> None:
        self._as_user = list(as_user)

    def start(self, launch: Launch) -> subprocess.Popen[bytes]:
        script = launch.folder / "enter.sh"
        for name in ("upper", "work", "root"):
            (launch.folder / name).mkdir(parents=True, exist_ok=True)
        (launch.folder / "hosts").write_text(launch.hosts)
        script.write_text("\n".join(self._steps(launch)))
        words = [*_NEW, *self._as_user, "/bin/sh", str(script), *launch.command]
        return _popen(words, launch.environment, launch.folder)

    def entering(self, process: subprocess.Popen[bytes], command: Sequence[str]) -> list[str]:
        user = ["--user", "--preserve-credentials"] if self._as_user else []
        spaces = ["--mount", "--uts", "--ipc", "--pid", "--root", "--wd"]
        return [_found("nsenter"), "--target", str(_first_inside(process)), *user, *spaces, "--", *command]

    def signal(self, process: subprocess.Popen[bytes], number: int) -> None:
        inside = _first_inside(process) if process.poll() is None else None
        if inside:
            _send(inside, number)
        elif number == signal.SIGKILL and process.poll() is None:
            process.kill()  # while it is being set up

    def _steps(self, launch: Launch) -> list[str]:
        folder, quote = launch.folder, shlex.quote
        options = f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work" + (",userxattr" if self._as_user else "")
        return [
            "set -e",
            f"mount -t overlay overlay -o {quote(options)} {quote(str(folder / 'root'))}",
            f"cd {quote(str(folder / 'root'))}",
            *(f"if [ -d .{quote(str(path))} ]; then mount -t tmpfs tmpfs .{quote(str(path))}; fi" for path in HIDDEN),
            "chmod 1777 tmp",
            *(line for path in launch.visible if _is_hidden(path) for line in _bind(path, str(path), True)),
            "mount -t proc proc proc",
            "mount --rbind /sys sys",
            *_devices(),
            *_bind(folder / "hosts", "/etc/hosts", False),
            *(line for one in launch.mounts for line in _bind(one.source, one.target, one.is_read_only)),
            f"mkdir -p .{HOME} .{quote(launch.work or WORK)}",
            f"hostname {quote(launch.hostname[:63])}",
            f'exec chroot . /bin/sh -c \'cd {quote(launch.work or WORK)} && exec "$@"\' sh "$@"',
        ]


class Rewriting:
    """Paths of volumes are replaced by where they lie; a process group stands for the container."""

    has_names = False

    def start(self, launch: Launch) -> subprocess.Popen[bytes]:
        home, work = launch.folder / "home", launch.folder / "work"
        for path in (home, work):
            path.mkdir(parents=True, exist_ok=True)
        places = {mount.target: str(mount.source) for mount in launch.mounts}
        environment = {name: _replaced(value, places) for name, value in launch.environment.items()}
        command = [_replaced(word, places) for word in launch.command]
        return _popen(command, {**environment, "HOME": str(home)}, work)

    def entering(self, process: subprocess.Popen[bytes], command: Sequence[str]) -> list[str]:
        return list(command)

    def signal(self, process: subprocess.Popen[bytes], number: int) -> None:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return


def best_sandbox() -> Sandbox:
    """Namespaces where this machine allows them."""
    for as_user in ((), _AS_ROOT):
        if _can(as_user):
            return Namespaces(as_user)
    return Rewriting()


def _can(as_user: Sequence[str]) -> bool:
    if not shutil.which("unshare") or not shutil.which("nsenter"):
        return False
    steps = "mount -t tmpfs tmpfs /mnt && mkdir /mnt/u /mnt/w /mnt/r && hostname x && mount -t proc proc /proc && "
    options = "lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w" + (",userxattr" if as_user else "")
    command = [*_NEW, *as_user, "/bin/sh", "-c", f"{steps}mount -t overlay overlay -o {options} /mnt/r"]
    return subprocess.run(command, capture_output=True).returncode == 0


def _popen(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> subprocess.Popen[bytes]:
    """Not with our own environment, not with our own group; gone when its thread is."""
    return subprocess.Popen(
        [*dies_with_parent(), *([_found(words[0]), *words[1:]] if words[0] == _NEW[0] else words)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(environment), cwd=folder,
        start_new_session=True,
    )  # fmt: skip


def _found(program: str) -> str:
    return shutil.which(program) or program


def _bind(source: Path, target: str, is_read_only: bool) -> list[str]:
    inside, quoted = f".{shlex.quote(target)}", shlex.quote(str(source))
    if source.is_dir():
        lines = [f"mkdir -p {inside}"]
    else:
        lines = [f"mkdir -p .{shlex.quote(str(Path(target).parent))}", f"[ -e {inside} ] || : > {inside}"]
    lines.append(f"mount --bind {quoted} {inside}")
    return [*lines, f"mount -o remount,bind,ro {inside}"] if is_read_only else lines


def _devices() -> list[str]:
    """A /dev of its own: the machine's must not see what is made here, such as /dev/termination-log."""
    return [
        "mount -t tmpfs -o mode=755 tmpfs dev",
        *(f": > dev/{name} && mount --bind /dev/{name} dev/{name}" for name in DEVICES),
        "ln -s /proc/self/fd dev/fd && ln -s fd/0 dev/stdin && ln -s fd/1 dev/stdout && ln -s fd/2 dev/stderr",
        f"mkdir dev/shm && mount -t tmpfs -o mode=1777,size={SHARED_MEMORY} tmpfs dev/shm",
    ]


def _is_hidden(path: Path) -> bool:
    return any(path.is_relative_to(hidden) for hidden in HIDDEN)


def _replaced(text: str, places: Mapping[str, str]) -> str:
    for target in sorted(places, key=len, reverse=True):
        text = text.replace(target, places[target])
    return text


def _first_inside(process: subprocess.Popen[bytes]) -> int | None:
    """The process id, as seen from here, of the one that is process 1 inside."""
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    except FileNotFoundError:
        return None
    return int(children[0]) if children else None


def _send(process: int, number: int) -> None:
    try:
        os.kill(process, signal.Signals(number))
    except ProcessLookupError:
        return
