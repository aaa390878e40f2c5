"""How is a table printed that people read and scripts cut? Columns side by side, as kubectl and docker do."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

Cell = str | Text


def print_columns(console: Console, header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Under a header. A terminal cuts what does not fit; a file or pipe gets whole lines."""
    lines = [[Text(name, style="bold") for name in header], *([_text(cell) for cell in row] for row in rows)]
    widths = [max(cell.cell_len for cell in column) for column in zip(*lines, strict=True)]
    for line in lines:
        whole = Text("  ").join(_padded(cell, width) for cell, width in zip(line, widths, strict=True))
        whole.rstrip()
        if console.is_terminal:
            console.print(whole, no_wrap=True, overflow="ellipsis")
        else:
            console.print(whole, soft_wrap=True)


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)


def _padded(cell: Text, width: int) -> Text:
    padded = cell.copy()
    padded.pad_right(width - cell.cell_len)
    return padded
