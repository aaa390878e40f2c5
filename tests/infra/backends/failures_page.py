"""docs/reference/failures.md, from the recordings of one run: `python tests/infra/backends/failures_page.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recorded import FIXTURES, Recording, read
from reported import reported

from prefect_tpu.infra.backends.jobset_symptoms import UNCONFIRMED_SECONDS, UNHEARD_SECONDS

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/reference/failures.md"
RUN = FIXTURES.parent / "failures-run.json"
GOAL_SECONDS = 5.0
Seen = Mapping[str, Any]

HEAD = """\
# Failures in a cluster

<!-- Written by `make failures`; change tests/cluster/failures and run it again. -->

Each row was played for real on a Kubernetes control plane: etcd, API server, scheduler and controllers, with the JobSet
controller and Kueue, and nodes whose containers are processes of one machine. A job on a slice of two hosts met the
failure, once driven by prefect-tpu and, where Kubernetes can restart it, once as a plain JobSet with `maxRestarts: 2`
on the same nodes. What each kind means and advises stands in [endings](endings.md).

Seconds are from the first sign of the failure in the API server to the creation of the next attempt's JobSet, and in
brackets from the moment at which the test caused it; beside them the same for JobSet's own restart, until its new Jobs
were there. A dash: nothing is begun anew, or there was nothing to compare.
"""

# What the run cannot show, because its cluster is quicker than others.
SILENCE = f"""\
A node counts as silent after 40 s by Kubernetes' defaults, and its pods are deleted 300 s later. An attempt with a host
there that reports no step is given up {UNHEARD_SECONDS:.0f} s after the node counts as silent, or
{UNCONFIRMED_SECONDS:.0f} s where its pod is being deleted."""

_COLUMNS = ("failure", "what Kubernetes reported", "kind", "retried", "message", "seconds", "JobSet's seconds")


def page() -> str:
    """The whole page."""
    found = [(path.stem, *read(path)) for path in sorted(FIXTURES.glob("*.json"))]
    table = [_line(_COLUMNS), "| --- | --- | --- | --- | --- | ---: | ---: |"]
    table += [_line(row(recording, seen)) for _, recording, seen in found]
    run = json.loads(RUN.read_text())
    facts = [f"- {name}: {value}" for name, value in run.items()]
    parts = [HEAD, *table, "", *_goal([seen for *_, seen in found]), "", SILENCE, "", "## Measured on", "", *facts, ""]
    return "\n".join(parts)


def row(recording: Recording | None, seen: Seen) -> tuple[str, ...]:
    """One failure's cells, under the columns of the page."""
    said = reported(recording) if recording else ["nothing: it was not sent"]
    return (
        seen["title"],
        "<br>".join(f"`{text}`" if ":" in text or "=" in text else text for text in map(_cell, said)),
        f"`{seen['kind']}`",
        "yes" if seen["retryable"] else "no",
        _cell(seen["message"]),
        _seconds(seen["ours"]),
        _seconds(seen["jobset"])
        if seen["jobset"] or not seen["jobset_bound"]
        else f"not within {seen['jobset_bound']:.0f}",
    )


def _goal(all_seen: Sequence[Seen]) -> list[str]:
    """How many met the goal, and which did not."""
    measured = [seen for seen in all_seen if seen["is_quick"] and seen["ours"]]
    missed = [seen["title"] for seen in measured if seen["ours"]["since_shown"] > GOAL_SECONDS]
    text = (
        f"Where a slice was to be had, the goal is {GOAL_SECONDS:g} s after the first sign: met by"
        f" {len(measured) - len(missed)} of {len(measured)}."
    )
    return [text + (f" Missed: {'; '.join(missed)}." if missed else "")]


def _seconds(delay: Mapping[str, float] | None) -> str:
    return "–" if delay is None else f"{delay['since_shown']:.1f} ({delay['since_caused']:.1f})"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("`", "'")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page())
