"""`python docs/generator` writes the pages of the reference; with `--check` it says which of them are old."""

from __future__ import annotations

import difflib
import sys

from pages import FOLDER, PAGES


def main() -> int:
    old = [name for name, make in PAGES.items() if _is_old(name, make())]
    if "--check" in sys.argv[1:]:
        return len(old) and _complain(old)
    for name in old:
        (FOLDER / name).write_text(PAGES[name]())
    return 0


def _is_old(name: str, made: str) -> bool:
    page = FOLDER / name
    return not page.exists() or page.read_text() != made


def _complain(old: list[str]) -> int:
    for name in old:
        page = FOLDER / name
        lines = page.read_text().splitlines() if page.exists() else []
        differing = difflib.unified_diff(lines, PAGES[name]().splitlines(), f"docs/reference/{name}", "the code", n=0)
        sys.stderr.write("\n".join([*differing, ""]))
    sys.stderr.write(f"{', '.join(old)}: not what the code says now. Run `make docs`.\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
