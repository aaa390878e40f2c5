"""Whose is an option that `run` does not know? Perhaps the program's: then the answer says where to write it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand

_FUNCTION = re.compile(r"[^-].*:[A-Za-z_]\w*")
_ALIKE = 0.8  # a slip of the fingers in one of our own


class ForPrograms(TyperCommand):
    """A command that begins a program, which has options or parameters of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = list(args)  # what reads them takes them away
        try:
            return super().parse_args(ctx, args)
        except Exception as exc:
            option = getattr(exc, "option_name", None)
            if option is not None and hasattr(exc, "possibilities") and hasattr(exc, "message"):
                exc.message += hint(option, exc.possibilities or (), words)
            raise


def hint(option: str, ours: Sequence[str], words: Sequence[str]) -> str:
    """What to add to the refusal of an option; nothing where one of ours is meant."""
    if not option.startswith("--") or difflib.get_close_matches(option, ours, cutoff=_ALIKE):
        return ""
    if any(map(_FUNCTION.fullmatch, words)):
        return f". A parameter of the function is written --param {option[2:].replace('-', '_')}=VALUE."
    return f". One of the program's own is written after '--': … -- {option}"
