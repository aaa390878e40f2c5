"""No message of the troubleshooting page is dead: each is still in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from reader import ROOT

from prefect_tpu.infra.errors import FailureKind

PAGE = ROOT / "docs/how-to/troubleshooting.md"
VARIES = "…"
QUOTED = re.compile(r"\*\*`(.+?)`\*\*(?= |$)", re.MULTILINE)


def messages() -> list[str]:
    return QUOTED.findall(PAGE.read_text())


@cache
def templates() -> str:
    """Every text of the code on a line, `…` for what is put in."""
    sources = [path for folder in ("infra", "flows", "tasks") for path in (ROOT / folder).rglob("*.py")]
    return "\n".join(text for path in sources for text in texts(path))


def texts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else VARIES for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"\{\w*\}", VARIES, node.value)


@pytest.mark.parametrize("message", messages())
def test_the_code_still_says_it(message: str) -> None:
    parts = [re.escape(part) for part in re.split(f"{VARIES}+", message)]
    assert re.search(".*".join(parts), templates()), "no text of the code reads like this any more: mend the page"


def test_every_entry_is_found() -> None:
    bold = [line for line in PAGE.read_text().splitlines() if line.startswith("**")]
    assert len(messages()) >= len(bold) > 30


def test_kinds_are_those_there_are() -> None:
    named = set(re.findall(r"`\*\* `(\w+)`$", PAGE.read_text(), flags=re.MULTILINE))
    assert named <= {kind.value for kind in FailureKind}
    assert len(named) > 6
