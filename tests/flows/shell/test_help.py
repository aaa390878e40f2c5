"""What `--help` prints is what was written: typer takes words in square brackets for colours, and drops them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text
from typer.main import get_command

from prefect_tpu.flows.cli import app


def test_no_help_has_words_that_typer_takes_for_a_colour() -> None:
    written = list(texts(get_command(app)))
    assert len(written) > 100 and [text for text in written if Text.from_markup(text).plain != text] == []


def texts(command: Any) -> Iterator[str]:
    """Of a command, its options and all commands below it."""
    for item in (command, *command.params):
        yield from (text for name in ("help", "epilog", "metavar") if (text := getattr(item, name, None)))
    for below in getattr(command, "commands", {}).values():
        yield from texts(below)
