"""How a Kueue queue stands is read from its own status."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.backends.jobset_named import queue_check
from prefect_tpu.infra.checks import Verdict

ACTIVE = {"type": "Active", "status": "True"}
INACTIVE = {"type": "Active", "status": "False", "message": "Can't submit new workloads"}


@pytest.mark.parametrize(
    ("spec", "status", "verdict", "said"),
    [
        ({}, {"conditions": [ACTIVE], "pendingWorkloads": 2, "admittedWorkloads": 1}, "ok", "2 waiting, 1 admitted"),
        ({}, {}, "ok", "0 waiting, 0 admitted"),
        ({"stopPolicy": "Hold"}, {"conditions": [ACTIVE]}, "fail", "stopped (Hold)"),
        ({"stopPolicy": "None"}, {"conditions": [INACTIVE]}, "fail", "not active: Can't submit new workloads"),
    ],
)
def test_a_queue_that_admits_nothing_is_a_failure(
    spec: dict[str, Any], status: dict[str, Any], verdict: str, said: str
) -> None:
    check = queue_check("tpus", {"spec": {"clusterQueue": "team", **spec}, "status": status})
    assert check.verdict == Verdict(verdict) and said in check.found
    assert check.found.startswith("'tpus' of cluster queue 'team'")
    assert bool(check.advice) == check.has_failed
