"""How are the figures of one worker with many slices shown? As lines on the terminal, and as a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import machine

if TYPE_CHECKING:
    from scale import Effort, Found

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "work-pool-scale.md"
HEAD = """\
# One worker, many slices

<!-- Written by `make bench-scale`; change tests/bench/scale.py and run it again. -->

What one worker of a `tpu-slice` pool costs while it sees to {slices} slices, beside Prefect's own worker for Kubernetes
(prefect-kubernetes) with {slices} Jobs. One after the other on the same servers: etcd, API server, scheduler and
controllers of Kubernetes, JobSet, PostgreSQL and a Prefect server, all on one machine with the worker itself. Nodes
({slices} of `{accelerator}`) and pods are objects without processes, whose status is patched as kubelets would.

The two do different work. Ours writes each run down in a bucket, makes a JobSet and a Secret of it, tells in Prefect
what it waits for, and starts a run again whose slice was taken back. The other one makes a Job, and says that a run
whose pod is lost has crashed; another run then takes its place.
"""
GOALS = {"seconds": 1.0, "memory": 300.0}  # of memory in MB, as the table is not
MB_OF_MIB = 2**20 / 10**6
MEANT = """\
- **A lost slice**: a pod ends as those of spot VMs do (`DisruptionTarget`), and its run is not `Running` any more, as
  PostgreSQL tells it, looked up fifty times a second.
- **Events**: {rate} changes of pods a second for {seconds:.0f} s; each {every}th is a lost slice: {lost:.0f} a minute.
  What follows from that (its pod goes, another one comes) is not counted.
- **Nothing happens**: {half:.0f} s between the burst and the events.
- **Burst**: {slices} runs are made as fast as the Prefect server makes them.
- **Requests** to the API server are counted by its audit log, those to Prefect by a proxy on the worker's way, which is
  slower than none, and those to the bucket by the fake that stands for it. A watch counts once, when it begins.
- **Memory** is resident memory of the worker with all that it started; **a core** is what it used of one.
"""


def text(found: Found) -> str:
    """One side as lines for the terminal."""
    rows = [f"{label:44} {value(found)}" for label, value in ROWS]
    most = ", ".join(f"{verb} {count}" for verb, count in found.busy.by_verb.most_common(8))
    return "\n".join([found.name, *rows, f"API server, under events: {most}", *found.errors[:5]])


def page(found: Sequence[Found], effort: Effort) -> str:
    """The whole page."""
    from scale import ACCELERATOR, EVENTS_A_SECOND, LOST_EVERY

    said = {"slices": effort.slices, "seconds": effort.seconds, "half": effort.seconds / 2, "accelerator": ACCELERATOR}
    said |= {"rate": EVENTS_A_SECOND, "every": LOST_EVERY, "lost": 60 * EVENTS_A_SECOND / LOST_EVERY}
    names = {"ours": "`tpu-slice`", "stock": "`kubernetes`"}
    table = [f"| | {' | '.join(names[one.name] for one in found)} |", "| --- |" + " ---: |" * len(found)]
    table += [f"| {label} | {' | '.join(value(one) for one in found)} |" for label, value in ROWS]
    parts = [HEAD.format(**said), "\n".join(table) + "\n", "## Goals\n", *_goals(found[0]), "## What is measured\n"]
    facts = [f"- {name}: {value}" for name, value in machine.facts() if not name.startswith(("jax", "orbax"))]
    return "\n".join([*parts, MEANT.format(**said), "## Measured on\n", "\n".join(facts) + "\n"])


def percentile(seconds: Sequence[float], share: float) -> float:
    """The nearest rank; of none, none."""
    return sorted(seconds)[math.ceil(share * len(seconds)) - 1] if seconds else math.nan


def _goals(ours: Found) -> list[str]:
    late = percentile(ours.seconds, 0.99)
    memory = max(ours.burst.cost.peak, ours.still.peak, ours.busy.peak) * MB_OF_MIB
    watches = ours.still.watches, ours.busy.watches
    said = {True: "met", False: "missed"}
    lines = [
        f"- 99 of 100 lost slices are told within {GOALS['seconds']:.0f} s: {late:.2f} s,"
        f" {said[late <= GOALS['seconds']]}.",
        f"- Less than {GOALS['memory']:.0f} MB of memory: {memory:.0f} MB at most, {said[memory < GOALS['memory']]}.",
        f"- A constant number of watches: {watches[0]}, then {watches[1]}.",
    ]
    return ["\n".join(lines) + "\n"]


def _rate(cost: str, of: str) -> Callable[[Found], str]:
    def value(found: Found) -> str:
        one = getattr(found, cost)
        return f"{one.a_minute(getattr(one, of)):.0f}"

    return value


ROWS: Sequence[tuple[str, Callable[[Found], str]]] = (
    ("lost slices", lambda one: f"{len(one.seconds) + one.missing}"),
    ("… of which Prefect did not hear", lambda one: f"{one.missing}"),
    ("until a lost slice is told, median", lambda one: f"{percentile(one.seconds, 0.5):.2f} s"),
    ("… 99th percentile", lambda one: f"{percentile(one.seconds, 0.99):.2f} s"),
    ("… at most", lambda one: f"{percentile(one.seconds, 1.0):.2f} s"),
    ("open watches", lambda one: f"{one.busy.watches}"),
    ("nothing happens: requests a minute to Prefect", _rate("still", "prefect")),
    ("… to the API server", _rate("still", "cluster")),
    ("… to the bucket", _rate("still", "bucket")),
    ("… a core", lambda one: f"{one.still.cores:.0%}"),
    ("… memory", lambda one: f"{one.still.memory:.0f} MiB"),
    ("events: requests a minute to Prefect", _rate("busy", "prefect")),
    ("… to the API server", _rate("busy", "cluster")),
    ("… to the bucket", _rate("busy", "bucket")),
    ("… a core", lambda one: f"{one.busy.cores:.0%}"),
    ("… memory at most", lambda one: f"{one.busy.peak:.0f} MiB"),
    ("burst: all runs are made", lambda one: f"{one.burst.created:.0f} s"),
    ("… all are taken by the worker", lambda one: f"{one.burst.taken:.0f} s"),
    ("… all run", lambda one: f"{one.burst.up:.0f} s"),
    ("… requests to Prefect", lambda one: f"{one.burst.cost.prefect}"),
    ("… to the API server", lambda one: f"{one.burst.cost.cluster}"),
    ("… to the bucket", lambda one: f"{one.burst.cost.bucket}"),
    ("… memory at most", lambda one: f"{one.burst.cost.peak:.0f} MiB"),
)
