"""A Python session that is told block after block which file to run; names live on from one to the next.

Standard input: a path a line. The file descriptor in the first argument: a line of JSON for each, with the name of
the exception that ended it or null.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any


def run(path: str, names: dict[str, Any]) -> str | None:
    """Run one file among the names of those before it; the name of the exception that ended it."""
    try:
        exec(compile(Path(path).read_text(), path, "exec"), names)
    except BaseException as exc:  # noqa: BLE001 -- whatever a block ends with is reported
        traceback.print_exc()
        return type(exc).__name__
    finally:
        sys.stdout.flush()
    return None


def main() -> None:
    names = sys.modules["__main__"].__dict__
    sys.path.insert(0, os.getcwd())  # as in a session that a reader starts in this folder
    with os.fdopen(int(sys.argv[1]), "w") as answers:
        for line in sys.stdin:
            answers.write(json.dumps(run(line.rstrip("\n"), names)) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
