"""How do the lines of a job's hosts look in a shell? The leader's as they are, those of several prefixed."""

from __future__ import annotations

import asyncio
import json
import sys

from rich.console import Console
from rich.text import Text

from prefect_tpu.flows.shell.found import found
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.host_logs import Line, Wanted, lines
from prefect_tpu.infra.storage import Storage

COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_cyan", "bright_yellow", "bright_green")


def print_lines(name: str, output: str | None, wanted: Wanted, *, as_json: bool) -> None:
    """Print what the hosts wrote; JSON gives one object per line."""
    storage, _ = found(name, output)
    asyncio.run(_print(storage, wanted, as_json))


async def _print(storage: Storage, wanted: Wanted, as_json: bool) -> None:
    console = Console(highlight=False, soft_wrap=True)
    attempt = None
    async for line in lines(storage, wanted):
        if as_json:
            sys.stdout.write(json.dumps({"attempt": line.attempt, "host": line.host, "line": line.text}) + "\n")
        else:
            if attempt not in (None, line.attempt):
                Console(stderr=True, highlight=False).print(f"-- attempt {line.attempt} --", style="dim")
            _write(console, line, prefixed=wanted.hosts is None or len(wanted.hosts) > 1)
        attempt = line.attempt
        sys.stdout.flush()
    if attempt is None and not history.attempt_numbers(storage):
        sys.stderr.write("No attempt has begun, so no host has written anything yet.\n")


def _write(console: Console, line: Line, *, prefixed: bool) -> None:
    """A program's own colours and brackets stay as it wrote them."""
    if prefixed:
        console.print(Text(f"host {line.host} | ", style=COLOURS[line.host % len(COLOURS)]), end="")
    sys.stdout.write(f"{line.text}\n")
