"""How is a table printed that people read and scripts cut? Columns side by side, as kubectl and docker do."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

Cell = str | Text


def columns(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[Text]:
    """A line for the header and one for each row; a terminal cuts what does not fit."""
    lines = [[Text(name, style="bold") for name in header], *([_text(cell) for cell in row] for row in rows)]
    return aligned(lines)


def aligned(lines: Sequence[Sequence[Cell]]) -> list[Text]:
    """Cells of equal width, two blanks apart; nothing behind the last one."""
    cells = [[_text(cell) for cell in line] for line in lines]
    widths = [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)]
    return [_line(line, widths) for line in cells]


def _line(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    whole = Text("  ", no_wrap=True, overflow="ellipsis").join(map(_padded, cells, widths))
    whole.rstrip()
    return whole


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)


def _padded(cell: Text, width: int) -> Text:
    padded = cell.copy()
    padded.pad_right(width - cell.cell_len)
    return padded
