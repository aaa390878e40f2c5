"""`python docs/generator` writes what is made from the code: the reference, and the template of work pools.

With `--check` it says which of these files are old.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from pathlib import Path

from pages import FOLDER, PAGES
from templates import FILES, ROOT

MADE: dict[Path, Callable[[], str]] = {**{FOLDER / name: make for name, make in PAGES.items()}, **FILES}


def main() -> int:
    old = [path for path, make in MADE.items() if _is_old(path, make())]
    if "--check" in sys.argv[1:]:
        return len(old) and _complain(old)
    for path in old:
        path.write_text(MADE[path]())
    return 0


def _is_old(path: Path, made: str) -> bool:
    return not path.exists() or path.read_text() != made


def _complain(old: list[Path]) -> int:
    for path in old:
        lines = path.read_text().splitlines() if path.exists() else []
        name = str(path.relative_to(ROOT))
        differing = difflib.unified_diff(lines, MADE[path]().splitlines(), name, "the code", n=0)
        sys.stderr.write("\n".join([*differing, ""]))
    names = ", ".join(str(path.relative_to(ROOT)) for path in old)
    sys.stderr.write(f"{names}: not what the code says now. Run `make docs`.\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
