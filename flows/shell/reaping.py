"""How is told what is ended or deleted because nobody wants it any more? `prefect-tpu reap`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import anyio
import typer

from prefect_tpu.flows.shell.exit_status import ExitStatus
from prefect_tpu.infra.backends.base import Place
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.launcher.reaping import Finding, find
from prefect_tpu.infra.request import default_output


def reap(output: str | None, places: Sequence[Place], *, dry_run: bool, as_json: bool) -> ExitStatus:
    """End and delete what `find` finds; with `dry_run` only say it."""
    place = output or default_output()
    found, refusals = anyio.run(_found_and_ended, place, places, dry_run)
    if as_json:
        typer.echo(
            json.dumps({"found": [_told(finding) for finding in found], "ended": not dry_run, "errors": refusals})
        )
    else:
        verb = "would end" if dry_run else "ended"
        for finding in found:
            typer.echo(f"{verb} {finding.what}: {finding.why}")
        if not found:
            sys.stderr.write(f"Nothing to reap in {place}.\n")
        for refusal in refusals:
            sys.stderr.write(f"{refusal}\n")
    return ExitStatus.PLATFORM if refusals else ExitStatus.SUCCEEDED


async def _found_and_ended(place: str, places: Sequence[Place], dry_run: bool) -> tuple[list[Finding], list[str]]:
    found = await find(place, places)
    answers = [] if dry_run else [await _end(finding) for finding in found]
    return found, [answer for answer in answers if answer is not None]


async def _end(finding: Finding) -> str | None:
    """What stood in the way; one refusal must not keep the rest alive."""
    try:
        await finding.end()
    except (PlatformError, OSError) as exc:
        return f"{finding.what}: {exc}"
    return None


def _told(finding: Finding) -> dict[str, str]:
    return {"what": finding.what, "why": finding.why}
