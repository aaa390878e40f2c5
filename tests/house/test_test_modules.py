"""Tests are no package: what they share is found by its bare name, whichever folder it lies in."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path


def test_no_two_modules_that_tests_share_have_one_name(repository: Path) -> None:
    found = defaultdict(list)
    for path in sorted((repository / "tests").rglob("*.py")):
        is_shared = not path.name.startswith(("test_", "__")) and path.name != "conftest.py"
        if is_shared and not (path.parent / "__init__.py").exists():
            found[path.stem].append(str(path.relative_to(repository)))
    assert len(found) > 50 and [places for places in found.values() if len(places) > 1] == []
