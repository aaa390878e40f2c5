"""Which sources count for a slice in a cluster, and when a no of Google decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.backends.jobset_doctor import asked_of_quota, quota_check
from prefect_tpu.infra.backends.jobset_question import Question
from prefect_tpu.infra.backends.jobset_quota import rulings, rulings_of_all
from prefect_tpu.infra.backends.jobset_quota_question import QuotaQuestion, question_of
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.policy.quota import Fit, Ruling, cannot_tell, is_hopeless
from prefect_tpu.infra.state import Offer

if TYPE_CHECKING:
    from cloud_monitoring import Monitoring
    from cloud_quotas import CloudQuotas

CLUSTER = "gke://research/us-east5-b/training"
CONTEXT = "gke_research_us-east5-b_training"
FAMILY = "TPUS-PER-TPU-FAMILY-per-project-region"


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")


async def ask(name: str = "v6e-16", **said: Any) -> tuple[Ruling, ...]:
    return await rulings(QuotaQuestion(shape=resolve(name), **said))


@pytest.mark.anyio
@pytest.mark.parametrize("cluster", [CLUSTER, CONTEXT])
async def test_a_no_decides_only_where_nodes_must_be_made(
    google_quotas: CloudQuotas, google_usage: Monitoring, cluster: str
) -> None:
    made, taken = await rulings_of_all(
        [QuotaQuestion(shape=resolve("v6e-16"), cluster=cluster, makes_pools=makes) for makes in (True, False)]
    )
    assert is_hopeless(made) and not is_hopeless(taken)
    assert taken[0].fit is Fit.DOES_NOT and "nodes that are there already take no more of it" in taken[0].said


@pytest.mark.anyio
async def test_the_current_context_tells_the_project_too(
    google_quotas: CloudQuotas, google_usage: Monitoring, kubeconfig: Callable[..., Path]
) -> None:
    kubeconfig("http://127.0.0.1:9", **{"current-context": CONTEXT})
    google_quotas.grant(FAMILY, 16, region="us-east5", tpu_family="CT6E")
    google_usage.use(FAMILY, "us-east5", (0, 60.0), tpu_family="CT6E")
    assert [found.fit for found in await ask()] == [Fit.FITS]


@pytest.mark.anyio
@pytest.mark.parametrize(("cluster", "named"), [("kind-dev", "cluster kind-dev"), (None, "the cluster at hand")])
async def test_without_a_project_nothing_can_be_told(nowhere: None, cluster: str | None, named: str) -> None:
    (found,) = await ask(cluster=cluster)
    assert found == cannot_tell(
        f"in which project of Google Cloud {named} is, its name does not say",
        "Name the cluster as gke://project/location/cluster.",
    )


@pytest.mark.anyio
async def test_a_kubeconfig_that_cannot_be_read_is_said(kubeconfig: Callable[..., Path]) -> None:
    kubeconfig("http://127.0.0.1:9").write_text("{")
    (found,) = await ask()
    assert found.fit is Fit.CANNOT_TELL and "cannot be read" in found.said


@pytest.mark.anyio
async def test_hosts_without_chips_are_under_no_quota(nowhere: None) -> None:
    (found,) = await ask("cpu-4x1", cluster=CLUSTER, queue="team")
    assert found.fit is Fit.CANNOT_TELL and "without chips" in found.said


@pytest.mark.anyio
async def test_a_queue_is_one_source_more(google_quotas: CloudQuotas, nowhere: None) -> None:
    found = await ask(cluster="kind-dev", queue="team")
    assert len(found) == 2 and found[1].said.startswith("queue team: ")


def test_a_job_says_what_its_offers_are_asked_by(make_job: Callable[..., SliceJob]) -> None:
    pods = PodSettings(
        image="python:3.12", namespace="ml", queue="team", make_pools=True, node_selector={"a": "b"}, cluster="other"
    )
    asked = question_of(make_job(pods=pods, slices=2), Offer(accelerator="v6e-16:spot", cluster=CLUSTER, zone="z"))
    assert (asked.chips, asked.capacity, asked.cluster, asked.zone) == (32, "spot", CLUSTER, "z")
    assert (asked.namespace, asked.queue, asked.makes_pools, asked.selector) == ("ml", "team", True, {"a": "b"})
    assert question_of(make_job(pods=pods), Offer(accelerator="v6e-16")).cluster == "other"


def test_the_doctor_asks_what_a_job_that_makes_pools_in_a_zone_would() -> None:
    question = Question(cluster=CLUSTER, namespace="ml", queue="team", zone="us-east5-b", make_pools=True)
    assert asked_of_quota(question, "v6e-16:spot") == QuotaQuestion(
        shape=resolve("v6e-16:spot"), cluster=CLUSTER, namespace="ml", queue="team", zone="us-east5-b", makes_pools=True
    )


@pytest.mark.parametrize(
    ("name", "reservation", "capacity"),
    [
        ("v6e-16", None, "on-demand"),
        ("v6e-16:spot", None, "spot"),
        ("v6e-16:reserved=ours", None, "reserved"),
        ("v6e-16", "ours", "reserved"),
        ("v6e-16:queue", "ours", "queue"),
    ],
)
def test_a_named_reservation_is_the_capacity(name: str, reservation: str | None, capacity: str) -> None:
    assert QuotaQuestion(shape=resolve(name), reservation=reservation).capacity == capacity


@pytest.mark.parametrize(
    ("ruling", "verdict", "found"),
    [
        (Ruling(fit=Fit.FITS, said="all is well"), "ok", "all is well. Quota says nothing of capacity."),
        (Ruling(fit=Fit.DOES_NOT, said="full", advice="Ask."), "warn", "does not fit: full"),
        (Ruling(fit=Fit.DOES_NOT, said="never", advice="Ask.", is_for_good=True), "fail", "does not fit: never"),
        (cannot_tell("dark", "Look."), "warn", "cannot tell: dark"),
    ],
)
def test_the_doctor_tells_a_ruling_as_a_finding(ruling: Ruling, verdict: str, found: str) -> None:
    check = quota_check("quota of v6e-16", ruling)
    assert (check.verdict, check.found, check.advice) == (verdict, found, ruling.advice)
