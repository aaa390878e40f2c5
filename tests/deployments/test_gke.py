"""The manifests of deployments/gke and the code say the same names, verbs, labels and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from prefect.settings.models.worker import WorkerWebserverSettings
from typer.main import get_command

from prefect_tpu import __version__
from prefect_tpu.flows.cli import app
from prefect_tpu.infra.accelerator_table import GENERATIONS
from prefect_tpu.infra.gcp import permissions
from prefect_tpu.infra.gcp.clusters import ClusterName
from prefect_tpu.infra.gcp.google_permissions import ACCOUNTS, DRIVER, NODE, WORKER
from prefect_tpu.infra.gcp.machine_resources import _MACHINES as MACHINES
from prefect_tpu.infra.gcp.permissions import REAPING, WORKING

ROOT = Path(__file__).parents[2]
GKE = ROOT / "deployments/gke"
PLACE = "cloud.google.com/gke-tpu-accelerator"
Object = dict[str, Any]


def documents(file: str) -> list[Object]:
    return list(yaml.safe_load_all((GKE / file).read_text()))


def resources() -> Iterator[Object]:
    """All but the queues: what the kustomization applies, then the worker."""
    for file in (*documents("kustomization.yaml")[0]["resources"], "worker.yaml"):
        yield from documents(file)


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
    assert alone == {"kueue.yaml", "worker.yaml"}
    assert all(f"kubectl apply -f deployments/gke/{name}" in (GKE / name).read_text() for name in alone)


def test_no_object_stands_twice() -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in resources()]
    assert len(names) == len(set(names))


def test_the_namespace_is_one() -> None:
    (told,) = documents("kustomization.yaml")
    namespace = documents("namespace.yaml")[0]["metadata"]["name"]
    found = {told["namespace"], documents("kueue.yaml")[-1]["metadata"]["namespace"]}
    for document in resources():
        found |= {one["namespace"] for one in document.get("subjects", []) if "namespace" in one}
        found |= {document["metadata"]["namespace"]} if "namespace" in document["metadata"] else set()
    (queue,) = (one for one in documents("kueue.yaml") if one["kind"] == "ClusterQueue")
    found |= set(queue["spec"]["namespaceSelector"]["matchLabels"].values())
    assert found == {namespace}


def test_accounts_are_those_of_the_table_under_the_same_name_here_and_at_google() -> None:
    accounts = [one for one in resources() if one["kind"] == "ServiceAccount"]
    told = [*documents("workload-identity.yaml"), *(one for one in accounts if "annotations" in one["metadata"])]
    said_of = {one["metadata"]["name"]: one["metadata"]["annotations"] for one in told}
    assert {one["metadata"]["name"] for one in accounts} == set(said_of) == {one.name for one in ACCOUNTS} - {NODE.name}
    for name, said in said_of.items():
        assert said == {"iam.gke.io/gcp-service-account": f"{name}@my-project.iam.gserviceaccount.com"}


def test_roles_are_bound_to_the_account_by_both_of_its_names() -> None:
    bound: dict[str, set[str]] = {}
    for one in resources():
        if "roleRef" in one:
            bound.setdefault(one["roleRef"]["name"], set()).update(subject["name"] for subject in one["subjects"])
    driver, worker, reaper = (
        {name, f"{name}@my-project.iam.gserviceaccount.com"}
        for name in ("prefect-tpu-driver", "prefect-tpu-worker", "prefect-tpu-reaper")
    )
    assert bound == {
        "prefect-tpu-driver": driver | worker,
        "prefect-tpu-viewer": driver | worker,
        "prefect-tpu-worker": worker,
        "prefect-tpu-reaper": reaper,
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


def test_the_worker_s_role_is_the_table_s() -> None:
    assert named("worker.yaml", "Role", WORKER.name)["rules"] == permissions.rules(WORKING)
    text = (GKE / "worker.yaml").read_text()
    assert all(f"# {grant.reason}\n" in text for grant in WORKING)


def workers() -> Object:
    found: Object = named("worker.yaml", "Deployment", WORKER.name)["spec"]
    return found


def worker() -> Object:
    (found,) = workers()["template"]["spec"]["containers"]
    return dict(found)


def test_two_workers_of_which_one_may_be_away() -> None:
    (label,) = workers()["template"]["metadata"]["labels"].items()
    budget = named("worker.yaml", "PodDisruptionBudget", WORKER.name)["spec"]
    chosen = [workers()["selector"], budget["selector"]]
    chosen += [one["labelSelector"] for one in workers()["template"]["spec"]["topologySpreadConstraints"]]
    assert all(one == {"matchLabels": dict([label])} for one in chosen)
    assert workers()["replicas"] == 2 and budget["maxUnavailable"] == 1
    assert workers()["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_the_worker_s_pod_may_as_little_as_the_reaper_s() -> None:
    spec, own = workers()["template"]["spec"], pod()
    assert spec["securityContext"] == own["securityContext"]
    assert worker()["securityContext"] == own["containers"][0]["securityContext"]
    assert worker()["image"] == own["containers"][0]["image"]
    (folder,) = (one["mountPath"] for one in worker()["volumeMounts"])
    written = {
        one["name"]: one["value"] for one in worker()["env"] if one["name"] in ("HOME", "PREFECT_HOME", "TMPDIR")
    }
    assert len(written) == 3 and all(f"{value}/".startswith(f"{folder}/") for value in written.values())


def test_the_worker_s_command_is_one_of_prefect_s_for_our_type() -> None:
    program, group, name, *words = worker()["command"]
    assert (program, group, name) == ("prefect", "worker", "start")
    given = dict(zip(words[:-1:2], words[1:-1:2], strict=True))
    assert given == {"--type": "tpu-slice", "--pool": "tpu", "--name": "$(POD_NAME)"}
    assert words[-1] == "--with-healthcheck"


def test_the_worker_is_asked_how_it_is_where_it_answers() -> None:
    settings = WorkerWebserverSettings()
    (port,) = worker()["ports"]
    assert port["containerPort"] == settings.port
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert worker()[probe]["httpGet"] == {"path": "/health", "port": port["name"]}
    (host,) = (one["valueFrom"] for one in worker()["env"] if one["name"] == "PREFECT_WORKER_WEBSERVER_HOST")
    assert host == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_the_worker_learns_of_its_server_from_a_secret_alone() -> None:
    told = {one["name"]: one for one in worker()["env"] if one["name"].startswith("PREFECT_API_")}
    refs = {name: one["valueFrom"]["secretKeyRef"] for name, one in told.items()}
    assert {name: (one["key"], one.get("optional", False)) for name, one in refs.items()} == {
        "PREFECT_API_URL": ("url", False),
        "PREFECT_API_KEY": ("key", True),
        "PREFECT_API_AUTH_STRING": ("auth-string", True),
    }
    (secret,) = {one["name"] for one in refs.values()}
    assert f"create secret generic {secret} --from-literal=url=" in (GKE / "worker.yaml").read_text()


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
