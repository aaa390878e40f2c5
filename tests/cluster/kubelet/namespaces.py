"""Containers in namespaces: a root, process ids and a host name of their own.

The root lies over this machine's: what a container writes is thrown away with it; homes, temporary files and this clone
are not seen; volumes lie where the manifest says. Its process is process 1 and takes everything it started with it.
Nothing is mounted or made outside: what is to be seen inside is bound to a folder of the new root first, and put in its
place only once that is the root, where a link such as /var/run leads inside and not out.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kubelet.environment import HOME
from kubelet.rewriting import Rewriting
from kubelet.sandbox import Launch, Sandbox, begin
from kubelet.volumes import Mount

WORK = "/workspace"
CLONE = Path(__file__).resolve().parents[3]
HIDDEN = (Path("/tmp"), Path("/home"), Path("/root"), CLONE)
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
SHARED_MEMORY = "64m"  # of a container to which no volume is mounted there
SET_UP_SECONDS = 10.0
SOURCES = ".sources"  # where in its root lies what is put in its place later
NEW = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--propagation", "private")


class Namespaces:
    """For root: in a user namespace no root can be laid over this machine's."""

    has_names = True

    def start(self, launch: Launch) -> subprocess.Popen[bytes]:
        for name in ("upper", "work", "root"):
            (launch.folder / name).mkdir(parents=True, exist_ok=True)
        (launch.folder / "hosts").write_text(launch.hosts)
        outer, inner = launch.folder / "outer.sh", launch.folder / "inner.sh"
        mounts = sorted(_all_mounts(launch), key=lambda mount: len(Path(mount.target).parts))  # none hides another
        outer.write_text("\n".join(_outer_steps(launch, mounts)))
        inner.write_text("\n".join(_inner_steps(launch, mounts)))
        words = [_found(NEW[0]), *NEW[1:], "/bin/sh", str(outer), *launch.command]
        return begin(words, launch.environment, launch.folder)

    def entering(self, process: subprocess.Popen[bytes], command: Sequence[str]) -> list[str]:
        spaces = ["--mount", "--uts", "--ipc", "--pid", "--root", "--wd"]
        return [_found("nsenter"), "--target", str(_inside_at_last(process)), *spaces, "--", *command]

    def signal(self, process: subprocess.Popen[bytes], number: int) -> None:
        if process.poll() is not None:
            return
        if number == signal.SIGKILL:
            process.kill()  # with it goes its child, which is process 1 inside, and with that all others
        elif inside := _inside_at_last(process):
            _send(inside, number)


def best_sandbox() -> Sandbox:
    """Namespaces where this machine allows them."""
    return Namespaces() if _can_be_isolated() else Rewriting()


def _can_be_isolated() -> bool:
    if not all(map(shutil.which, ("unshare", "nsenter", "chroot"))):
        return False
    steps = "mount -t tmpfs tmpfs /mnt && mkdir /mnt/u /mnt/w /mnt/r && hostname x && mount -t proc proc /proc && "
    options = "lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w"
    command = [*NEW, "/bin/sh", "-c", f"{steps}mount -t overlay overlay -o {options} /mnt/r"]
    return subprocess.run(command, capture_output=True).returncode == 0


def _all_mounts(launch: Launch) -> Iterator[Mount]:
    """Whatever is to be seen."""
    for path in launch.visible:
        if any(path.is_relative_to(hidden) for hidden in HIDDEN):
            yield Mount(source=path, target=str(path), is_read_only=True)
    for name in DEVICES:
        yield Mount(source=Path("/dev", name), target=f"/dev/{name}", is_read_only=False)
    yield Mount(source=launch.folder / "hosts", target="/etc/hosts", is_read_only=False)
    yield from launch.mounts


def _outer_steps(launch: Launch, mounts: Sequence[Mount]) -> Iterator[str]:
    """Lay the root over the machine's, and bind to it what will be seen inside."""
    quote, folder = shlex.quote, launch.folder
    options = f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work"
    yield "set -e"
    yield f"mount -t overlay overlay -o {quote(options)} {quote(str(folder / 'root'))}"
    yield f"cd {quote(str(folder / 'root'))}"
    yield f"mkdir {SOURCES}"
    for number, mount in enumerate(mounts):
        place = f"{SOURCES}/{number}"
        yield f"mkdir {place}" if mount.source.is_dir() else f": > {place}"
        yield f"mount --bind {quote(str(mount.source))} {place}"
    yield "mount --rbind /sys sys"
    yield f"cp {quote(str(folder / 'inner.sh'))} {SOURCES}/inner.sh"
    yield f'exec {_found("chroot")} . /bin/sh /{SOURCES}/inner.sh "$@"'


def _inner_steps(launch: Launch, mounts: Sequence[Mount]) -> Iterator[str]:
    """Put everything in its place, with the new root as root, and become the container's process."""
    work = shlex.quote(launch.work or WORK)
    yield "set -e"
    yield "mount -t proc proc /proc"
    for path in HIDDEN:
        quoted = shlex.quote(str(path))
        yield f"if [ -d {quoted} ]; then mount -t tmpfs -o mode=1777 tmpfs {quoted}; fi"
    yield "mount -t tmpfs -o mode=755 tmpfs /dev"  # what is made here must not reach the machine's
    yield "ln -s /proc/self/fd /dev/fd; ln -s fd/0 /dev/stdin; ln -s fd/1 /dev/stdout; ln -s fd/2 /dev/stderr"
    yield f"mkdir /dev/shm; mount -t tmpfs -o mode=1777,size={SHARED_MEMORY} tmpfs /dev/shm"
    for number, mount in enumerate(mounts):
        yield from _placed(f"/{SOURCES}/{number}", mount)
    yield f"rm /{SOURCES}/inner.sh; rmdir /{SOURCES}"
    yield f"mkdir -p {HOME} {work}"
    yield f"hostname {shlex.quote(launch.hostname)}"
    yield f"cd {work}"
    yield "unset OLDPWD PWD"
    yield 'exec "$@"'


def _placed(source: str, mount: Mount) -> Iterator[str]:
    target = shlex.quote(mount.target)
    if mount.source.is_dir():
        yield f"mkdir -p {target}"
    else:
        yield f"mkdir -p {shlex.quote(str(Path(mount.target).parent))}; [ -e {target} ] || : > {target}"
    yield f"mount --bind {source} {target}"
    if mount.is_read_only:
        yield f"mount -o remount,bind,ro {target}"
    yield f"umount {source} && {'rmdir' if mount.source.is_dir() else 'rm'} {source}"


def _found(program: str) -> str:
    """With its folder: the path of the container's environment is another one."""
    return shutil.which(program) or program


def _inside(process: subprocess.Popen[bytes]) -> int | None:
    """The process id, as seen from here, of the one that is process 1 inside."""
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    except FileNotFoundError:
        return None
    return int(children[0]) if children else None


def _inside_at_last(process: subprocess.Popen[bytes]) -> int | None:
    """Process 1 once it is the container's: before, the shell that sets it up would swallow a signal."""
    end = time.monotonic() + SET_UP_SECONDS
    while process.poll() is None and time.monotonic() < end:
        inside = _inside(process)
        if inside and _is_set_up(inside):
            return inside
        time.sleep(0.005)
    return None


def _is_set_up(inside: int) -> bool:
    """Whether a process has its own root and the folder of what was to be put in its place is gone."""
    root = Path(f"/proc/{inside}/root")
    try:
        return os.stat(root).st_dev != os.stat("/").st_dev and not (root / SOURCES).exists()
    except OSError:
        return False


def _send(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return
