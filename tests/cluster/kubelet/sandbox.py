"""How a container's process is kept to itself, in one of two ways: what both are asked, and which one this machine has.

In `namespaces` a container has a root of its own. Elsewhere (`rewriting`) paths and names in its command and
environment are replaced.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from control_plane import dies_with_parent

from kubelet.volumes import Mount


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What is started.

    folder: of this container alone, empty. visible: folders of this machine that its image needs.
    hosts: its /etc/hosts. work: its working folder, where the manifest names one.
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


def begin(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a process that has nothing of ours and is killed when the thread that starts it is gone."""
    return subprocess.Popen(
        [*dies_with_parent(), *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(environment), cwd=folder,
        start_new_session=True,
    )  # fmt: skip
