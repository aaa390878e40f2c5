"""A Python session that is told block after block which file to run; names live on from one to the next.

Standard input: a path a line. The file descriptor in the first argument: a line of JSON for each, with the name of
the exception that ended it or null. The second argument says which session: `plain`, or `notebook` for a kernel.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Run = Callable[[Path], str | None]
KERNEL_SECONDS = 240


@contextmanager
def plain() -> Iterator[Run]:
    """This interpreter."""
    names = sys.modules["__main__"].__dict__
    sys.path.insert(0, os.getcwd())  # as in a session that a reader starts in this folder

    def run(path: Path) -> str | None:
        try:
            exec(compile(path.read_text(), str(path), "exec"), names)
        except BaseException as exc:  # noqa: BLE001 -- whatever a block ends with is reported
            traceback.print_exc()
            return type(exc).__name__
        finally:
            sys.stdout.flush()
        return None

    yield run


@contextmanager
def notebook() -> Iterator[Run]:
    """A kernel, as a notebook has it: an event loop runs, and functions have no file."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=KERNEL_SECONDS)

    def run(path: Path) -> str | None:
        reply = client.execute_interactive(path.read_text(), timeout=KERNEL_SECONDS, allow_stdin=False)
        content = reply["content"]
        sys.stdout.flush()
        return None if content["status"] == "ok" else str(content.get("ename"))

    try:
        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


def main() -> None:
    session = {"plain": plain, "notebook": notebook}[sys.argv[2]]
    with os.fdopen(int(sys.argv[1]), "w") as answers, session() as run:
        for line in sys.stdin:
            answers.write(json.dumps(run(Path(line.rstrip("\n")))) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
