"""What is kept of a run: a fixture per failure, for tests without a cluster, and seconds for the page."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import asdict
from datetime import UTC, datetime

from cluster import Cluster
from control_plane import build
from control_plane.programs import Pace
from failures_page import RUN
from play import Delay, Outcome
from recorded import FIXTURES


def keep(outcome: Outcome) -> None:
    """Write one case's fixture."""
    case, recording = outcome.case, outcome.recording
    failure = (recording.failure() if recording else None) or outcome.failure  # with the ids that the recording has
    seen = {
        "title": case.title,
        "kind": failure.kind.value,
        "retryable": failure.retryable,
        "message": failure.message,
        "attempts": len(outcome.attempts),
        "state": outcome.state,
        "is_quick": case.is_quick,
        "ours": _seconds(outcome.ours),
        "jobset": _seconds(outcome.jobset),
        "jobset_bound": case.plain_seconds if case.change_plain else None,
    }
    FIXTURES.mkdir(parents=True, exist_ok=True)
    content = (
        json.dumps({"seen": seen, "recording": asdict(recording) if recording else None}, indent=1, sort_keys=True)
        + "\n"
    )
    (FIXTURES / f"{case.name}.json").write_text(content)


def keep_run(cluster: Cluster, began: float) -> None:
    """When it was, on what, of which versions."""
    run = {
        "date": datetime.now(UTC).date().isoformat(),
        "versions": ", ".join([f"Kubernetes {cluster.api.get('/version')['gitVersion']}", *_add_ons()]),
        "machine": f"{os.cpu_count()} cores, {os.getloadavg()[2]:.0f} processes that wanted them",
        "wall time": f"{time.monotonic() - began:.0f} s for all of it",
        "node": f"counts as silent after {Pace().node_grace_seconds} s without a heartbeat, its pods are deleted"
        f" {Pace().toleration_seconds} s later (40 s and 300 s are Kubernetes' defaults)",
    }
    RUN.write_text(json.dumps(run, indent=1) + "\n")


def _add_ons() -> list[str]:
    """JobSet and Kueue, as they are built."""
    built = {"jobset": "kubernetes", "kueue": "kueue"}
    texts = {name: (build.HERE / "go" / module / "go.mod").read_text() for name, module in built.items()}
    found = (re.search(rf"sigs.k8s.io/({name}) (v[0-9.]+)", text) for name, text in texts.items())
    return [" ".join(match.groups()) for match in found if match]


def _seconds(delay: Delay | None) -> dict[str, float] | None:
    return None if delay is None else {key: round(value, 2) for key, value in asdict(delay).items()}
