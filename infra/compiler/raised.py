"""What was raised, and where in the person's own code? As plain data, wherever it was raised."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

_NOT_OWN = frozenset({"site-packages", "dist-packages"})
_LOCATIONS = "Suspected Python Code Location:"  # in a refusal of the compiler
_LOCATION = re.compile(r"^\s+(\S+\.py):(\d+)(?::\d+)? \[([^\]]+)\]", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One line of a traceback."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """What was raised.

    type: the name of its class.
    frames: of its traceback, the innermost last.
    arguments: bytes that the step's arguments take of a device, where they are known.
    devices: how many JAX devices the program was to have, where that is known.
    """

    type: str
    text: str
    frames: tuple[Frame, ...] = ()
    arguments: int | None = None
    devices: int | None = None


def place_of(raised: Raised, libraries: Iterable[str] = ()) -> str:
    """The innermost line of the person's own code, as `train.py:41 in loss`; empty where there is none.

    libraries: folders whose files are not the person's own, beside those of installed packages.
    """
    folders = tuple(libraries)
    told = _LOCATION.findall(raised.text.partition(_LOCATIONS)[2])
    frames = [Frame(file=file, line=int(line), function=name.rpartition(".")[2]) for file, line, name in told]
    own = [frame for frame in (*raised.frames, *reversed(frames)) if _is_own(frame.file, folders)]
    return f"{PurePath(own[-1].file).name}:{own[-1].line} in {own[-1].function}" if own else ""


def _is_own(file: str, libraries: tuple[str, ...]) -> bool:
    path = PurePath(file)
    return not (file.startswith("<") or _NOT_OWN & set(path.parts) or any(path.is_relative_to(at) for at in libraries))
