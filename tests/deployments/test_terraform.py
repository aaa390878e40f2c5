"""Terraform takes our page, and what it makes is what the code counts on.

Terraform is the real one, the provider a fake: attributes, types and what is required are those of Google's own, a
table of facts. What Google itself would say of a value is not known here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.gcp.clusters import ClusterName, GkeCluster
from prefect_tpu.infra.gcp.google_permissions import ACCOUNTS, DRIVER, NODE, REAPER, WORKER, GoogleAccount, Place

FOLDER = Path(__file__).parents[2] / "deployments/gke/terraform"
V6E = {"machine_type": "ct6e-standard-4t", "topology": "4x4"}
SLICES = ("v6e-16", "v5e-16", "v5p-32", "v4-16", "v6e-256")


@pytest.fixture(scope="module")
def made(terraform: Any) -> Any:
    """A cluster of a zone with pools of every kind."""
    pools: dict[str, Any] = {
        name: {"machine_type": resolve(name).machine_type, "topology": str(resolve(name).topology), "spot": True}
        for name in SLICES
    }
    pools["ones"] = {"machine_type": "ct5lp-hightpu-8t", "slices": 3, "reservation": "projects/other/reservations/r"}
    return terraform.apply(cluster="training", location="europe-west4-a", namespace="team", tpu_pools=pools)


def member(account: GoogleAccount) -> str:
    return f"serviceAccount:{account.name}@research.iam.gserviceaccount.com"


def test_the_page_is_valid_and_in_terraform_s_own_format(terraform: Any) -> None:
    assert "The configuration is valid" in terraform.run("validate", "-no-color")
    assert terraform.run("fmt", "-check", "-no-color") == ""


def test_a_word_that_google_s_provider_does_not_know_is_refused(terraform: Any, tmp_path: Path) -> None:
    """Else the test before this one would say nothing."""
    changed = terraform.other(tmp_path / "page")
    page = changed.folder / "main.tf"
    page.write_text(page.read_text().replace("tpu_topology", "topology"))
    assert 'An argument named "topology" is not expected here' in changed.run("validate", "-no-color", status=1)


def test_accounts_may_do_what_the_table_says_and_no_more(made: Any) -> None:
    assert {one["account_id"] for one in made.of("google_service_account")} == {account.name for account in ACCOUNTS}
    (role,) = made.of("google_project_iam_custom_role")
    assert DRIVER.permissions == WORKER.permissions == REAPER.permissions, "one role serves all"
    assert sorted(role["permissions"]) == sorted(DRIVER.permissions)
    given = {("project", one["role"], one["member"]) for one in made.of("google_project_iam_member")}
    given |= {("bucket", one["role"], one["member"]) for one in made.of("google_storage_bucket_iam_member")}
    given |= {
        ("node account", one["role"], one["member"])
        for one in made.of("google_service_account_iam_member")
        if one["role"] != "roles/iam.workloadIdentityUser"
    }
    assert given == {wanted for account in ACCOUNTS for wanted in rights(account, role["name"])}


def rights(account: GoogleAccount, own_role: str) -> set[tuple[Place, str, str]]:
    found = {(role.on, role.role, member(account)) for role in account.roles}
    return found | ({("project", own_role, member(account))} if account.permissions else set())


def test_accounts_of_the_namespace_are_their_namesakes_at_google(made: Any) -> None:
    found = {
        (one["service_account_id"].rpartition("/")[2], one["member"])
        for one in made.of("google_service_account_iam_member")
        if one["role"] == "roles/iam.workloadIdentityUser"
    }
    assert found == {
        (f"{one.name}@research.iam.gserviceaccount.com", f"serviceAccount:research.svc.id.goog[team/{one.name}]")
        for one in ACCOUNTS
        if one != NODE
    }


def test_nodes_run_as_the_account_that_is_made_for_them(made: Any) -> None:
    configured = [*made.of("google_container_node_pool"), *made.of("google_container_cluster")]
    accounts = {one["node_config"][0]["service_account"] for one in configured}
    assert len(configured) == len(SLICES) + 3 and accounts == {f"{NODE.name}@research.iam.gserviceaccount.com"}


@pytest.mark.parametrize("name", SLICES)
def test_a_pool_of_several_hosts_is_one_slice_as_the_code_counts_it(made: Any, name: str) -> None:
    shape, pool = resolve(name), made.one("google_container_node_pool", name)
    assert pool["placement_policy"] == [{"type": "COMPACT", "tpu_topology": str(shape.topology), "policy_name": None}]
    assert pool["autoscaling"][0]["min_node_count"] == 0
    assert pool["autoscaling"][0]["max_node_count"] == shape.hosts
    assert pool["node_config"][0]["spot"] is True and pool["node_locations"] == ["europe-west4-a"]
    assert pool["node_config"][0]["reservation_affinity"] == []
    assert (pool["node_config"][0]["disk_type"] == "hyperdisk-balanced") == name.startswith("v6e")


def test_a_pool_of_single_hosts_has_no_topology(made: Any) -> None:
    pool = made.one("google_container_node_pool", "ones")
    assert pool["placement_policy"] == [] and pool["autoscaling"][0]["max_node_count"] == 3
    (affinity,) = pool["node_config"][0]["reservation_affinity"]
    assert affinity["consume_reservation_type"] == "SPECIFIC_RESERVATION"
    assert affinity["values"] == ["projects/other/reservations/r"]


def test_what_google_would_refuse_later_is_refused_at_once(terraform: Any) -> None:
    pools = {
        "both": {**V6E, "spot": True, "reservation": "r"},
        "seven": {"machine_type": "tpu7x-standard-4t", "topology": "2x2x2"},
        "none": {"machine_type": "n2-standard-8"},
        "A_1": V6E,
    }
    said = terraform.refusal(location="Ohio", tpu_pools=pools)
    for told in (
        "Name a region such as",
        "spot or reserved, never both",
        "needs a workload policy",
        "ends with its number of chips",
        "at most 40 small letters",
    ):
        assert told in said


def test_a_pool_that_is_no_slice_or_lies_nowhere_is_refused(terraform: Any) -> None:
    pools = {"small": {**V6E, "topology": "2x2"}, "odd": {**V6E, "topology": "3x3"}}
    said = terraform.refusal(location="us-east5", tpu_pools=pools)
    for name, topology in (("small", "2x2"), ("odd", "3x3")):
        assert f"Pool {name} needs a zone" in said
        assert f"Pool {name}: {topology} of ct6e-standard-4t is no slice of several hosts" in said


def test_a_cluster_of_a_region_has_pools_in_a_zone(terraform: Any) -> None:
    made = terraform.apply(location="europe-west4", tpu_pools={"a": {**V6E, "zone": "europe-west4-a"}})
    assert made.one("google_container_node_pool", "a")["node_locations"] == ["europe-west4-a"]
    assert made.of("google_compute_subnetwork")[0]["region"] == "europe-west4"
    assert made.of("google_storage_bucket")[0]["location"] == "europe-west4"


def test_the_cluster_is_reached_by_its_name_and_has_what_jobs_use(made: Any) -> None:
    (cluster,) = made.of("google_container_cluster")
    assert ClusterName.parse(made.outputs["cluster"]) == ClusterName(
        gke=GkeCluster(project="research", location="europe-west4-a", cluster="training")
    )
    assert made.outputs["output"] == "gs://research-jobs/jobs"
    assert cluster["workload_identity_config"] == [{"workload_pool": "research.svc.id.goog"}]
    assert cluster["control_plane_endpoints_config"][0]["dns_endpoint_config"][0]["allow_external_traffic"] is True
    assert cluster["addons_config"][0]["gcs_fuse_csi_driver_config"] == [{"enabled": True}]
    assert cluster["networking_mode"] == "VPC_NATIVE" and len(cluster["ip_allocation_policy"]) == 1


def test_the_settings_on_the_page_make_the_pools_that_it_speaks_of(terraform: Any, tmp_path: Path) -> None:
    page = (FOLDER.parents[2] / "docs/how-to/cluster.md").read_text()
    settings = re.search(r"mine\.auto\.tfvars <<'END'\n(.*?)^END$", page, flags=re.DOTALL | re.MULTILINE)
    assert settings
    changed = terraform.other(tmp_path / "page")
    (changed.folder / "mine.auto.tfvars").write_text(settings[1])
    made = changed.apply()
    pools = {one["name"]: one["autoscaling"][0]["max_node_count"] for one in made.of("google_container_node_pool")}
    assert pools == {"cpu": 4, "v6e-16": 4, "v6e-8": 2}


def test_its_names_put_into_the_manifests_leave_none_of_ours(made: Any) -> None:
    manifests = "".join(path.read_text() for path in sorted(FOLDER.parent.glob("*.yaml")))
    told = "\n".join(line for line in manifests.splitlines() if not line.lstrip().startswith("#"))
    for one in made.outputs["names"].split("; "):
        _, found, wanted, _ = one.split("#")
        told = re.sub(found, wanted, told, flags=re.MULTILINE)
    assert not re.findall(r"my-\w+|us-east5|: ml$", told, flags=re.MULTILINE)
    assert "gke://research/europe-west4-a/training" in told and "gs://research-jobs/jobs" in told
    assert "europe-west4-docker.pkg.dev/research/prefect-tpu/launcher" in told
