"""Whether a Kueue queue allows a slice, by what its cluster queue says of its flavors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.backends.jobset_queue_quota import (
    Share,
    cohort_of,
    fitting,
    labels_of,
    quantity,
    queue_rulings,
    rule,
    shares_of,
)
from prefect_tpu.infra.backends.jobset_quota_question import QuotaQuestion
from prefect_tpu.infra.policy.quota import Fit, Ruling

CHIPS = "google.com/tpu"
KUEUE = "/apis/kueue.x-k8s.io"
V6E, V5P = ({"cloud.google.com/gke-tpu-accelerator": f"tpu-{name}-slice"} for name in ("v6e", "v5p"))


def share(nominal: float | None = 32, used: float | None = 0, borrowing: float | None = None) -> Share:
    return Share(flavor="v6e", nominal=nominal, borrowing=borrowing, used=used)


def queue(used: Any = 16, **spec: Any) -> dict[str, Any]:
    flavors = [
        {"name": "cpu", "resources": [{"name": "cpu", "nominalQuota": "900"}]},
        {"name": "v6e", "resources": [{"name": "cpu", "nominalQuota": 9}, {"name": CHIPS, "nominalQuota": "32"}]},
    ]
    group = {"coveredResources": ["cpu", CHIPS], "flavors": flavors}
    usage = [{"name": "v6e", "resources": [{"name": "cpu", "total": "4"}, {"name": CHIPS, "total": used}]}]
    return {"spec": {"resourceGroups": [group], **spec}, "status": {"flavorsUsage": usage}}


@pytest.mark.parametrize(
    ("found", "cohort", "says"),
    [
        (share(used=16), "", "fits: q, flavor v6e: needs 16 chips, has 16 of 32 (16 used)."),
        (share(used=24), "", "does not fit: q, flavor v6e: needs 16 chips, has 8 of 32 (24 used). Ask whoever"),
        (share(nominal=8), "", "does not fit: q, flavor v6e: needs 16 chips, the limit is 8. Ask whoever"),
        (share(used=None), "", "cannot tell: q, flavor v6e: needs 16 chips, the limit is 32; how much is used is not"),
        (share(nominal=None), "", "cannot tell: q, flavor v6e: its status is empty"),
        # In a cohort, what is its own is allowed, and what is not may be lent or not.
        (share(used=16), "team", "fits: q, flavor v6e: needs 16 chips, has 16 of 32 (16 used)."),
        (
            share(used=24),
            "team",
            "cannot tell: q, flavor v6e: needs 16 chips, has 8 of 32 (24 used); the rest would be",
        ),
        (share(nominal=0), "team", "cannot tell: q, flavor v6e: needs 16 chips, the limit is 0; the rest would be"),
        (share(nominal=0, borrowing=8), "team", "does not fit: q, flavor v6e: needs 16 chips, the limit is 8."),
        (share(nominal=8, borrowing=16, used=16), "team", "does not fit: q, flavor v6e: needs 16 chips, has 8 of 24"),
        (share(nominal=8, borrowing=16, used=4), "team", "cannot tell: q, flavor v6e: needs 16 chips, the limit is 8;"),
        (share(nominal=8, borrowing=16), "", "does not fit: q, flavor v6e: needs 16 chips, the limit is 8."),
    ],
)
def test_a_share_and_what_it_may_borrow(found: Share, cohort: str, says: str) -> None:
    assert str(rule("q", 16, [found], cohort)[0]).startswith(says)


def test_the_flavor_that_has_most_to_give_is_told_of() -> None:
    first, second = share(nominal=8), Share(flavor="spot", nominal=64, borrowing=None, used=0)
    assert rule("q", 16, [first, second], "")[0].said.startswith("q, flavor spot")


def test_without_a_flavor_of_such_nodes_nothing_is_ever_admitted() -> None:
    said = "q has no flavor with chips of such nodes"
    assert rule("q", 16, [], "") == (
        Ruling(fit=Fit.DOES_NOT, said=said, advice="Name another queue.", is_for_good=True),
    )


def test_shares_are_read_of_the_resource_that_is_wanted() -> None:
    assert shares_of(queue(), CHIPS) == (Share(flavor="v6e", nominal=32, borrowing=None, used=16),)
    assert [found.flavor for found in shares_of(queue(), "cpu")] == ["cpu", "v6e"]
    assert shares_of({"spec": {}}, CHIPS) == ()
    assert shares_of({**queue(), "status": {}}, CHIPS)[0].used is None


@pytest.mark.parametrize(("spec", "name"), [({"cohort": "a"}, "a"), ({"cohortName": "b"}, "b"), ({}, "")])
def test_a_cohort_is_named_in_either_version(spec: dict[str, Any], name: str) -> None:
    assert cohort_of(queue(**spec)) == name


@pytest.mark.parametrize(
    ("labels", "is_one"),
    [({"v6e": V6E}, True), ({"v6e": V5P}, False), ({"v6e": {}}, True), ({"v6e": None}, True), ({}, True),
     ({"v6e": {"pool": "a"}}, True)],
)  # fmt: skip
def test_a_flavor_of_other_nodes_is_none_and_one_that_is_not_known_may_be(labels: Any, is_one: bool) -> None:
    wanted = {**V6E, "topology": "4x4"}
    assert bool(fitting([share()], labels, wanted)) is is_one


def test_labels_of_a_flavor_that_may_not_be_looked_at_are_not_known() -> None:
    assert labels_of("may not be looked at") is None
    assert labels_of({"spec": {"nodeLabels": V6E}}) == V6E and labels_of({"spec": {}}) == {}


@pytest.mark.parametrize(
    ("value", "number"), [(16, 16), ("16", 16), ("2k", 2000), (0, 0), (None, None), ("", None), ("1.5", None)]
)
def test_a_quantity_of_chips(value: Any, number: float | None) -> None:
    assert quantity(value) == number


class Api:
    """A cluster with one queue of one flavor."""

    def __init__(self, server: Any, version: str) -> None:
        self._server, self._root = server, f"{KUEUE}/{version}"
        plurals = ("localqueues", "clusterqueues", "resourceflavors")
        server.on("GET", self._root, server.json({"resources": [{"name": plural} for plural in plurals]}))
        self.has("namespaces/ml/localqueues/team", {"spec": {"clusterQueue": "tpus"}})
        self.has("clusterqueues/tpus", queue())
        self.has("resourceflavors/v6e", {"spec": {"nodeLabels": V6E}})

    def has(self, path: str, content: dict[str, Any]) -> None:
        self._server.on("GET", f"{self._root}/{path}", self._server.json(content))

    def hides(self, path: str) -> None:
        no = self._server.status(403, "Forbidden", 'User "x" cannot get resource "y" in API group "z"')
        self._server.on("GET", f"{self._root}/{path}", no)

    def lacks(self, path: str) -> None:
        details = {"kind": path.split("/")[-2], "name": path.split("/")[-1]}
        self._server.on("GET", f"{self._root}/{path}", self._server.status(404, "NotFound", "not found", details))


@pytest.fixture(params=["v1beta2", "v1beta1"])
async def api(request: pytest.FixtureRequest, server: Any, kubeconfig: Callable[..., Path]) -> Api:
    kubeconfig(server.url)
    return Api(server, request.param)


async def asked(name: str = "v6e-16", **changes: Any) -> Ruling:
    (found,) = await queue_rulings(QuotaQuestion(shape=resolve(name), namespace="ml", queue="team", **changes))
    return found


@pytest.mark.anyio
async def test_a_queue_is_asked_in_the_version_that_is_served(api: Api) -> None:
    assert str(await asked()) == "fits: queue team (tpus), flavor v6e: needs 16 chips, has 16 of 32 (16 used)."
    found = await asked(slices=4)
    assert found.is_for_good and "needs 64 chips, the limit is 32" in found.said
    assert "no flavor with chips of such nodes" in (await asked("v5p-32")).said


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "hidden", "lacking"),
    [
        ("namespaces/ml/localqueues/team", "LocalQueue team may not be looked at", "LocalQueue team is not there"),
        ("clusterqueues/tpus", "ClusterQueue tpus may not be looked at", "ClusterQueue tpus is not there"),
    ],
)
async def test_a_queue_that_cannot_be_seen_cannot_tell(api: Api, path: str, hidden: str, lacking: str) -> None:
    api.hides(path)
    found = await asked()
    assert (found.fit, found.said) == (Fit.CANNOT_TELL, f"queue team: {hidden}")
    api.lacks(path)
    assert (await asked()).said == f"queue team: {lacking}"


@pytest.mark.anyio
async def test_flavors_that_cannot_be_seen_may_be_any(api: Api) -> None:
    api.hides("resourceflavors/v6e")
    assert (await asked()).fit is Fit.FITS


@pytest.mark.anyio
async def test_a_cluster_without_kueue_cannot_tell(server: Any, kubeconfig: Callable[..., Path]) -> None:
    kubeconfig(server.url)
    assert (await asked()).said == "queue team: the cluster does not know Kueue"


@pytest.mark.anyio
async def test_a_cluster_that_is_away_cannot_tell(kubeconfig: Callable[..., Path]) -> None:
    kubeconfig("http://127.0.0.1:9")
    found = await asked()
    assert found.fit is Fit.CANNOT_TELL and found.said.startswith("queue team: Could not")
