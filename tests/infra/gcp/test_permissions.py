"""The table of permissions and the manifests that grant it say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from prefect_tpu.infra.gcp import permissions
from prefect_tpu.infra.gcp.permissions import CHECKING, DRIVING, LOOKING, QUEUEING, REAPING, WORKING

DEPLOYMENTS = Path(__file__).parents[3] / "deployments/gke"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOYMENTS / name).read_text()))


def of_kind(name: str, kind: str) -> list[dict[str, Any]]:
    return [document for document in documents(name) if document["kind"] == kind]


def test_the_role_grants_the_table_and_nothing_else() -> None:
    (role,) = of_kind("rbac.yaml", "Role")
    assert role["rules"] == permissions.rules(DRIVING + QUEUEING + CHECKING)
    (viewer,) = of_kind("rbac-cluster.yaml", "ClusterRole")
    assert viewer["rules"] == permissions.rules(LOOKING)


def test_only_the_driver_is_bound_and_hosts_hold_no_token() -> None:
    (binding,) = of_kind("rbac.yaml", "RoleBinding")
    assert [subject["name"] for subject in binding["subjects"]] == ["prefect-tpu-driver"]
    accounts = {account["metadata"]["name"]: account for account in of_kind("rbac.yaml", "ServiceAccount")}
    assert set(accounts) == {"prefect-tpu-driver", "prefect-tpu-host"}
    assert accounts["prefect-tpu-host"]["automountServiceAccountToken"] is False


def test_each_rule_stands_in_the_manifest_with_its_reason() -> None:
    text = (DEPLOYMENTS / "rbac.yaml").read_text() + (DEPLOYMENTS / "rbac-cluster.yaml").read_text()
    for grant in DRIVING + QUEUEING + CHECKING + LOOKING:
        assert f"# {grant.reason}\n" in text


def test_what_is_only_looked_at_is_never_changed_and_secrets_are_never_read() -> None:
    assert all(verb in ("get", "list", "watch") for grant in LOOKING + CHECKING for verb in grant.verbs)
    assert all(grant.resource.plural != "secrets" for grant in DRIVING + QUEUEING + CHECKING + LOOKING + REAPING)
    assert not {"get", "list", "watch"} & {verb for grant in WORKING for verb in grant.verbs}


def test_a_permission_is_written_as_kubectl_says_it() -> None:
    said = [str(permission) for permission in permissions.permissions(DRIVING)]
    assert {"create jobsets.jobset.x-k8s.io", "get pods/log", "watch events"} <= set(said)
    assert len(said) == len(set(said))
