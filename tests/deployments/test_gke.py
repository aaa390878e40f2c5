"""The manifests of deployments/gke and the code say the same names, verbs, labels and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from typer.main import get_command

from prefect_tpu import __version__
from prefect_tpu.flows.cli import app
from prefect_tpu.infra.accelerator_table import GENERATIONS
from prefect_tpu.infra.gcp import permissions
from prefect_tpu.infra.gcp.clusters import ClusterName
from prefect_tpu.infra.gcp.google_permissions import ACCOUNTS, DRIVER, NODE
from prefect_tpu.infra.gcp.machine_resources import _MACHINES as MACHINES
from prefect_tpu.infra.gcp.permissions import REAPING

ROOT = Path(__file__).parents[2]
GKE = ROOT / "deployments/gke"
PLACE = "cloud.google.com/gke-tpu-accelerator"
Object = dict[str, Any]


def documents(file: str) -> list[Object]:
    return list(yaml.safe_load_all((GKE / file).read_text()))


def resources() -> Iterator[tuple[str, Object]]:
    for file in documents("kustomization.yaml")[0]["resources"]:
        for document in documents(file):
            yield file, document


def named(file: str, kind: str, name: str = "prefect-tpu-reaper") -> Object:
    (found,) = (one for one in documents(file) if one["kind"] == kind and one["metadata"]["name"] == name)
    return found


def reaper() -> Object:
    found: Object = named("reaper.yaml", "CronJob")["spec"]
    return found


def pod() -> Object:
    found: Object = reaper()["jobTemplate"]["spec"]["template"]["spec"]
    return found


def test_every_file_is_applied_by_the_kustomization_or_says_how_it_is() -> None:
    (told,) = documents("kustomization.yaml")
    listed = {*told["resources"], *(patch["path"] for patch in told["patches"]), "kustomization.yaml"}
    alone = {path.name for path in GKE.glob("*.yaml")} - listed
    assert alone == {"kueue.yaml"}
    assert "kubectl apply -f deployments/gke/kueue.yaml" in (GKE / "kueue.yaml").read_text()


def test_no_object_stands_twice() -> None:
    names = [(one["kind"], one["metadata"]["name"]) for _, one in resources()]
    assert len(names) == len(set(names))


def test_the_namespace_is_one() -> None:
    (told,) = documents("kustomization.yaml")
    namespace = documents("namespace.yaml")[0]["metadata"]["name"]
    found = {told["namespace"], documents("kueue.yaml")[-1]["metadata"]["namespace"]}
    for _, document in resources():
        found |= {one["namespace"] for one in document.get("subjects", []) if "namespace" in one}
    (queue,) = (one for one in documents("kueue.yaml") if one["kind"] == "ClusterQueue")
    found |= set(queue["spec"]["namespaceSelector"]["matchLabels"].values())
    assert found == {namespace}


def test_accounts_are_those_of_the_table_under_the_same_name_here_and_at_google() -> None:
    patched = {one["metadata"]["name"]: one["metadata"]["annotations"] for one in documents("workload-identity.yaml")}
    made = {one["metadata"]["name"] for _, one in resources() if one["kind"] == "ServiceAccount"}
    assert made == set(patched) == {one.name for one in ACCOUNTS} - {NODE.name}
    for name, said in patched.items():
        assert said == {"iam.gke.io/gcp-service-account": f"{name}@my-project.iam.gserviceaccount.com"}


def test_roles_are_bound_to_the_account_by_both_of_its_names() -> None:
    bound: dict[str, set[str]] = {}
    for _, one in resources():
        if "roleRef" in one:
            bound.setdefault(one["roleRef"]["name"], set()).update(subject["name"] for subject in one["subjects"])
    at_google = "@my-project.iam.gserviceaccount.com"
    assert bound == {
        "prefect-tpu-driver": {"prefect-tpu-driver", f"prefect-tpu-driver{at_google}"},
        "prefect-tpu-viewer": {"prefect-tpu-driver", f"prefect-tpu-driver{at_google}"},
        "prefect-tpu-reaper": {"prefect-tpu-reaper", f"prefect-tpu-reaper{at_google}"},
    }


def test_the_reaper_s_role_is_the_table_s() -> None:
    assert named("reaper.yaml", "Role")["rules"] == permissions.rules(REAPING)
    text = (GKE / "reaper.yaml").read_text()
    assert all(f"# {grant.reason}\n" in text for grant in REAPING)


def test_one_reaper_at_a_time_and_each_ends_before_the_next() -> None:
    told = reaper()
    minutes = int(re.fullmatch(r"\*/(\d+) \* \* \* \*", told["schedule"])[1])  # type: ignore[index]
    assert told["concurrencyPolicy"] == "Forbid"
    assert told["jobTemplate"]["spec"]["activeDeadlineSeconds"] < minutes * 60
    assert told["startingDeadlineSeconds"] < minutes * 60


def test_the_reaper_s_pod_may_as_little_as_a_pod_can() -> None:
    container = pod()["containers"][0]
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    (home,) = (one["value"] for one in container["env"] if one["name"] == "HOME")
    assert [one["mountPath"] for one in container["volumeMounts"]] == [home]


def test_the_reaper_s_command_is_one_of_ours() -> None:
    program, *words = pod()["containers"][0]["command"]
    assert program == "prefect-tpu"
    command = get_command(app).commands[words[0]]  # type: ignore[attr-defined]
    given = command.make_context(words[0], list(words[1:])).params
    assert given["output"] == "gs://my-bucket/jobs" and not given["dry_run"]
    (cluster,) = given["cluster"]
    assert ClusterName.parse(cluster).gke is not None, "by another name its node pools are not found"
    own = {one["name"]: one.get("valueFrom") for one in pod()["containers"][0]["env"]}
    assert given["namespace"] == "$(NAMESPACE)"
    assert own["NAMESPACE"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}


def test_the_reaper_s_image_is_of_this_version() -> None:
    assert pod()["containers"][0]["image"].endswith(f"/launcher:{__version__}")


def flavors() -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in documents("kueue.yaml") if one["kind"] == "ResourceFlavor"}


def test_flavors_are_generations_by_the_labels_of_their_nodes() -> None:
    for name, flavor in flavors().items():
        if name != "cpu":
            (label,) = flavor["spec"]["nodeLabels"].values()
            assert label in {machine.label for machine in GENERATIONS[name].machines}
            assert list(flavor["spec"]["nodeLabels"]) == [PLACE]


def test_the_queue_has_every_flavor_and_room_for_all_that_hosts_ask_for_beside_chips() -> None:
    (queue,) = (one for one in documents("kueue.yaml") if one["kind"] == "ClusterQueue")
    (group,) = queue["spec"]["resourceGroups"]
    assert [one["name"] for one in group["flavors"]] == list(flavors())
    cores = max(machine.cpus for machine in MACHINES.values())
    for flavor in group["flavors"]:
        quota = {one["name"]: one["nominalQuota"] for one in flavor["resources"]}
        assert list(quota) == group["coveredResources"] == ["google.com/tpu", "cpu", "memory"]
        assert (quota["google.com/tpu"] == 0) == (flavor["name"] == "cpu")
        assert int(quota["cpu"]) > cores * quota["google.com/tpu"]
    assert group["flavors"][0]["name"] == "cpu", "pods without chips would go to machines that have some"


def test_the_page_names_every_right_of_every_account_at_google() -> None:
    page = (ROOT / "docs/how-to/cluster.md").read_text()
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `prefect-tpu-")}
    assert set(rows) == {account.name for account in ACCOUNTS}
    for account in ACCOUNTS:
        assert set(re.findall(r"`(roles/[\w.]+)`", rows[account.name])) == {one.role for one in account.roles}
        assert ("the role below" in rows[account.name]) == bool(account.permissions)
    told = re.findall(r"`(container\.\w+\.\w+)`", "".join(re.findall(r"^\| `container.*$", page, flags=re.MULTILINE)))
    assert told == list(DRIVER.permissions)


def test_versions_are_those_that_the_cluster_tier_runs() -> None:
    page, story = (GKE / "README.md").read_text(), (ROOT / "docs/how-to/cluster.md").read_text()
    for folder, module in (("kubernetes", "sigs.k8s.io/jobset"), ("kueue", "sigs.k8s.io/kueue")):
        pinned = (ROOT / "tests/cluster/control_plane/go" / folder / "go.mod").read_text()
        version = re.search(rf"^\t{re.escape(module)} (v\S+)", pinned, flags=re.MULTILINE)
        assert version and version[1] in page and version[1] in story, f"README.md installs another version of {module}"
        others = re.findall(rf"{module.rpartition('/')[2]}/releases/download/(v[^/]+)/", page)
        assert others and set(others) == {version[1]}
