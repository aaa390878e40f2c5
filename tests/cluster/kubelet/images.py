"""What stands for images: folders of this machine by name; every other name is an image that cannot be pulled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_REFERENCE = re.compile(r"[a-z0-9]+([._/:@-]+[a-zA-Z0-9_]+)*")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class PullFailed(Exception):
    """An image that is not to be had; `reason` is the kubelet's word for it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What a container of this image finds.

    path: folders of programs, before the system's own.
    folders: what has to be seen of this machine for it.
    entrypoint: what runs where the manifest names no command; its `args` come behind.
    environment: set unless the manifest says otherwise.
    """

    path: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    entrypoint: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def search_path(self) -> str:
        """The value of PATH."""
        return ":".join([*map(str, self.path), SYSTEM_PATH])


def python_image(venv: Path) -> Image:
    """An image whose `python` is a virtual environment's, with the Python that it was made by."""
    settings = dict(line.split(" = ", 1) for line in (venv / "pyvenv.cfg").read_text().splitlines() if " = " in line)
    base = Path(settings["home"]).parent
    return Image(path=(venv / "bin",), folders=(venv, base))


class Images:
    """The images that can be pulled."""

    def __init__(self, known: Mapping[str, Image]) -> None:
        self._known = dict(known)

    def add(self, name: str, image: Image) -> None:
        """Push an image: from now on it can be pulled, also by containers that wait for it."""
        self._known[name] = image

    def pull(self, name: str, policy: str) -> Image:
        """The image of this name, with or without a tag.

        Raises:
            PullFailed: The registry does not know it, or it is no name.
        """
        bare = name.partition("@")[0]
        known = self._known.get(name) or self._known.get(bare.removesuffix(":latest"))
        if known:
            return known
        if not _REFERENCE.fullmatch(name):
            raise PullFailed(
                "InvalidImageName", f'Failed to apply default image tag "{name}": invalid reference format'
            )
        if policy == "Never":
            raise PullFailed("ErrImageNeverPull", f'Container image "{name}" is not present with pull policy of Never')
        full = name if ":" in name.rpartition("/")[2] or "@" in name else f"{name}:latest"
        message = f'failed to pull and unpack image "{full}": failed to resolve reference "{full}": {full}: not found'
        raise PullFailed("ErrImagePull", f"rpc error: code = NotFound desc = {message}")
