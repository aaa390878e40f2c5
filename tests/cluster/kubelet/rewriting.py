"""Containers on a machine without namespaces: paths of volumes are replaced by where they lie."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from kubelet.sandbox import Launch, begin


class Rewriting:
    """A process group stands for the container; its home and working folder are empty ones of this machine."""

    has_names = False

    def start(self, launch: Launch) -> subprocess.Popen[bytes]:
        home, work = launch.folder / "home", launch.folder / "work"
        for path in (home, work):
            path.mkdir(parents=True, exist_ok=True)
        places = {mount.target: str(mount.source) for mount in launch.mounts}
        environment = {name: replaced(value, places) for name, value in launch.environment.items()}
        command = [replaced(word, places) for word in launch.command]
        return begin(command, {**environment, "HOME": str(home)}, work)

    def entering(self, process: subprocess.Popen[bytes], command: Sequence[str]) -> list[str]:
        return list(command)

    def signal(self, process: subprocess.Popen[bytes], number: int) -> None:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return


def replaced(text: str, places: Mapping[str, str]) -> str:
    """A text with every path of `places` replaced, the longest first."""
    for target in sorted(places, key=len, reverse=True):
        text = text.replace(target, places[target])
    return text
