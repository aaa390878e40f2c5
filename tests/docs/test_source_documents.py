"""The page on the source documents has a row for each thing they ask and each error of theirs, and its proofs exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from reader import ROOT

PAGE = ROOT / "docs/reference/source-documents.md"
TEST = re.compile(r"\[`(test_\w+)`\]\(([^)]+)\)")
LINK = re.compile(r"\]\(([^)\s#]+)")
QUOTED = re.compile(r"“([^”]+)”")

# Of each document how many items it has, and which of them are for the program's side.
COUNTS = {0: 36, 1: 45, 2: 32, 3: 30, 4: 15}
PROGRAMS = {
    0: [4, 13, 26, 28, 31, 33],
    1: [6, 7, 8, 9, 10, 13, 14, 15, 17, 18, 19, 20, 22, 23, 24, 25, 26, 27, 28, 30, 31, 34, 35, 38, 39, 40, 42, 44, 45],
    2: [1, 3, 4, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22],
    3: [3, 4, 5, 8, 11, 12, 13, 14, 16, 17, 18, 19, 22, 23, 24, 25, 26, 30],
    4: [7, 9, 11, 15],
}
ERRORS = {"T": [*range(1, 6)], "K": [*range(1, 10)], "J": [*range(1, 15)], "X": [*range(1, 8)], "G": [1, 2]} | {
    "A": [*range(1, 10)],
    "S": [1, 2, 3, *range(5, 12)],
}


def rows() -> list[list[str]]:
    """The cells of each row of its tables."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def items(cell: str) -> Iterator[str]:
    """`0.1, 0.5–0.7` → 0.1, 0.5, 0.6, 0.7"""
    for part in cell.split(", "):
        if ends := re.fullmatch(r"(\d)\.(\d+)(?:–\1\.(\d+))?", part):
            document, first, last = ends.groups()
            yield from (f"{document}.{number}" for number in range(int(first), int(last or first) + 1))


@cache
def functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


@cache
def said() -> str:
    """What the code can say, and Hydra on the page that is followed."""
    places = [*(ROOT / "infra").rglob("*.py"), ROOT / "docs/examples/grpo/README.md"]
    return "\n".join(place.read_text() for place in places)


def test_each_item_of_the_programs_side_has_one_row_with_a_proof() -> None:
    found = {row[0]: row for row in rows() if len(row) == 4}
    wanted = [f"{document}.{number}" for document, numbers in PROGRAMS.items() for number in numbers]
    assert [item for item in found if item != "item"] == wanted
    without = [item for item in wanted if not TEST.search(found[item][3]) and "**missing**" not in found[item][3]]
    assert not without, f"no test is named for {', '.join(without)}"


def test_every_other_item_is_said_to_be_somewhere_or_missing() -> None:
    listed = [item for row in rows() if len(row) == 2 for item in items(row[0])]
    others = [
        f"{document}.{number}"
        for document, count in COUNTS.items()
        for number in range(1, count + 1)
        if number not in PROGRAMS[document]
    ]
    assert sorted(listed) == sorted(others)


def test_every_error_has_a_row() -> None:
    found = [row[0] for row in rows() if len(row) == 3 and row[0] != "error"]
    found = [error for error in found if error.startswith("E-")]
    assert sorted(found) == sorted(f"E-{letter}{number}" for letter, numbers in ERRORS.items() for number in numbers)


@pytest.mark.parametrize(("name", "place"), sorted(set(TEST.findall(PAGE.read_text()))))
def test_a_test_that_is_named_exists_where_it_is_linked(name: str, place: str) -> None:
    assert name in functions((PAGE.parent / place).resolve())


def test_what_is_linked_exists() -> None:
    links = LINK.findall(PAGE.read_text())
    assert len(links) > 100
    assert not [link for link in links if not (PAGE.parent / link).exists()]


@pytest.mark.parametrize("words", sorted(set(QUOTED.findall(PAGE.read_text()))))
def test_what_a_refusal_says_is_still_said(words: str) -> None:
    assert words in said()
