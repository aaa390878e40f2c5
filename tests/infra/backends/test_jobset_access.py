"""A permission that is missing is told with what it is for, where it stands, and whether jobs need it."""

from __future__ import annotations

from prefect_tpu.infra.backends.jobset_access import judged, stranger
from prefect_tpu.infra.checks import Verdict
from prefect_tpu.infra.gcp.permissions import DRIVING, LOOKING


def test_a_missing_verb_of_the_role_is_a_failure() -> None:
    (logs,) = (grant for grant in DRIVING if grant.part == "log")
    check = judged(logs, ["get"], "ml", is_needed=True)
    assert check.verdict is Verdict.FAIL
    assert check.found == "no get of pods/log in namespace 'ml': wanted so that logs are followed"
    assert "deployments/gke/rbac.yaml" in check.advice


def test_what_is_only_good_to_have_is_a_warning() -> None:
    check = judged(LOOKING[0], ["list", "watch"], None, is_needed=False)
    assert check.verdict is Verdict.WARN and "no list, watch of nodes of the whole cluster" in check.found
    assert check.advice.startswith("Jobs run without it.") and "rbac-cluster.yaml" in check.advice


def test_a_stranger_learns_that_the_namespace_may_be_wrong() -> None:
    check = stranger("default", "ml")
    assert check.verdict is Verdict.FAIL and "nothing of what jobs need" in check.found and "'default'" in check.found
    assert "--namespace (your context's is 'ml'), or" in check.advice
    assert "context" not in stranger("ml", "ml").advice
