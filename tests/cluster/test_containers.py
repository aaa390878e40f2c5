"""What a container sees, and how its end is reported: many pods at once, each looked at by one test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import CLONE, Cluster
from objects import Namespace, pod

pytestmark = pytest.mark.cluster

KEYS = {"text": "from a key"}
VARIABLES = [
    {"name": "PLAIN", "value": "plain"},
    {"name": "EXPANDED", "value": "$(PLAIN) $(NONE) $$(PLAIN)"},
    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}},
    {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    {"name": "CONFIG", "valueFrom": {"configMapKeyRef": {"name": "config", "key": "text"}}},
    {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "text"}}},
    {"name": "NOWHERE", "valueFrom": {"secretKeyRef": {"name": "none", "key": "text", "optional": True}}},
]
SOURCES = [
    {"configMapRef": {"name": "config"}, "prefix": "ALL_"},
    {"secretRef": {"name": "secret"}, "prefix": "HIDDEN_"},
]
VOLUMES = [
    {"name": "config", "configMap": {"name": "config", "items": [{"key": "text", "path": "deep/er"}]}},
    {"name": "secret", "secret": {"secretName": "secret", "defaultMode": 0o400}},
    {"name": "about", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    {"name": "memory", "emptyDir": {"medium": "Memory"}},
    {"name": "empty", "emptyDir": {}},
]
MOUNTS = [
    {"name": "config", "mountPath": "/nowhere/config", "readOnly": True},
    {"name": "secret", "mountPath": "/etc/secret"},
    {"name": "about", "mountPath": "/about"},
    {"name": "memory", "mountPath": "/dev/shm"},
    {"name": "empty", "mountPath": "/empty"},
]
LOOK_AROUND = """
cat /nowhere/config/deep/er /etc/secret/text /about/name; echo
stat -c %a /etc/secret/text
echo no > /nowhere/config/new || echo read-only
[ $(df -k --output=size /dev/shm | tail -n 1) -gt 65536 ] && echo large
echo left > /empty/here
"""
WRITE_EVERYWHERE = "for place in /tmp /etc /usr /var /; do echo x > $place/prefect-tpu-was-here; done"
ASK_THE_API = """
import json, os, ssl, urllib.error, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount"
address = os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
token = open(account + "/token").read()
asked = urllib.request.Request(f"https://{address}/api/v1/nodes", headers={"Authorization": "Bearer " + token})
try:
    urllib.request.urlopen(asked, context=ssl.create_default_context(cafile=account + "/ca.crt"))
except urllib.error.HTTPError as error:
    print(json.load(error)["message"])
"""
LARGE = "x = bytearray(300 << 20)\nimport time\ntime.sleep(60)"
POLITE = "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.1; done"
FAIL_ONCE = "echo run $(ls /empty | wc -l); [ -e /empty/mark ] || { : > /empty/mark; exit 1; }"
IS_GONE = "import os; print([name for name in ('jax', 'orbax', 'gcsfs') if not __import__(name)]); import prefect_tpu"


def _limited(memory: str) -> dict[str, Any]:
    return {"resources": {"limits": {"memory": memory}, "requests": {"memory": "16Mi"}}}


def _with_empty(*command: str, **container: Any) -> dict[str, Any]:
    return {"container": {"volumeMounts": [MOUNTS[-1]], **container}, "volumes": [VOLUMES[-1]]}


def _sh(name: str, script: str, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return pod(name, "sh", "-c", script, container=container, **spec)


def _helped(name: str, script: str, first: dict[str, Any]) -> dict[str, Any]:
    """A pod with something that starts before its container."""
    shared = {"image": "system", "volumeMounts": [MOUNTS[-1]]}
    made = _sh(name, script, {"volumeMounts": [MOUNTS[-1]]}, volumes=[VOLUMES[-1]])
    made["spec"]["initContainers"] = [{**shared, **first}]
    return made


def _pods() -> list[dict[str, Any]]:
    fallback = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    variables = _sh("variables", "env", {"env": VARIABLES, "envFrom": SOURCES, **_limited("64Mi")})
    variables["metadata"]["labels"] = {"a/b": "labelled"}
    return [
        variables,
        _sh("files", LOOK_AROUND, {"volumeMounts": MOUNTS}, volumes=VOLUMES),
        _sh("empty", f"ls -A $HOME . | grep -v :; ls -A /tmp; [ -e {CLONE} ] && ls {CLONE}; echo $$$$"),
        _sh("writer", WRITE_EVERYWHERE),
        _sh("said", "echo because > /dev/termination-log; echo chatter; exit 1", fallback),
        _sh("said-elsewhere", "echo there > /out/why", {"terminationMessagePath": "/out/why"}),
        _sh("said-much", "head -c 9000 /dev/zero | tr '\\0' x > /dev/termination-log"),
        _sh("logged", "seq 1 3; exit 1", fallback),
        _sh("unlogged", "seq 1 3; exit 0", fallback),
        pod("large", "python", "-c", LARGE, image="pod-python", container=_limited("100Mi")),
        pod("ours", "python", "-u", "-c", IS_GONE, image="pod-python"),
        pod("asks", "python", "-c", ASK_THE_API, image="pod-python"),
        pod("no-such-program", "no-such-program"),
        _sh("too-long", "exec sleep 60", activeDeadlineSeconds=1, terminationGracePeriodSeconds=1),
        _sh("polite", POLITE),
        _sh("deaf", "trap '' TERM; echo up; while :; do sleep 0.1; done", terminationGracePeriodSeconds=1),
        _sh("again", FAIL_ONCE, restartPolicy="OnFailure", **_with_empty()),
        _helped("prepared", "cat /empty/laid", {"name": "first", "command": ["sh", "-c", "echo yes > /empty/laid"]}),
        _helped("unprepared", "echo never", {"name": "first", "command": ["sh", "-c", "exit 5"]}),
        _helped(
            "accompanied",
            "while [ ! -e /empty/up ]; do sleep 0.05; done; echo both",
            {
                "name": "beside",
                "restartPolicy": "Always",
                "command": ["sh", "-c", "trap 'exit 0' TERM; : > /empty/up; while :; do sleep 0.05; done"],
            },
        ),
    ]


@pytest.fixture(scope="module")
def here(cluster: Cluster) -> Iterator[Namespace]:
    nodes = cluster.add_cpus("containers")
    with cluster.namespace("containers") as made:
        made.keep("ConfigMap", "config", KEYS)
        made.keep("Secret", "secret", {"text": "from a secret"})
        made.make(*_pods())
        yield made
    cluster.delete_nodes(*nodes)


@pytest.fixture
def ended(here: Namespace, until: Callable[..., Any]) -> Callable[[str], dict[str, Any]]:
    """How the container of a pod ended."""

    def wait(name: str) -> dict[str, Any]:
        until(lambda: here.is_over(name), f"the end of {name}")
        return here.end(name)

    return wait


def test_the_environment_is_the_images_and_the_manifests(here: Namespace, ended: Callable[..., Any]) -> None:
    ended("variables")
    found = dict(line.split("=", 1) for line in here.log("variables").splitlines())
    by_the_shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    of_every_container = {"PATH", "HOME", "LANG", "HOSTNAME", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}
    assert found.pop("ADDRESS") == here.pod("variables")["status"]["podIP"]
    assert {name: value for name, value in found.items() if name not in by_the_shell | of_every_container} == {
        "PLAIN": "plain",
        "EXPANDED": "plain $(NONE) $(PLAIN)",
        "POD": "variables",
        "LABEL": "labelled",
        "MEMORY": "64",
        "CONFIG": "from a key",
        "SECRET": "from a secret",
        "ALL_text": "from a key",
        "HIDDEN_text": "from a secret",
    }


def test_volumes_lie_where_the_manifest_says(here: Namespace, ended: Callable[..., Any]) -> None:
    assert ended("files")["exitCode"] == 0
    shown = [line for line in here.log("files").splitlines() if "Read-only" not in line]
    assert shown == ["from a keyfrom a secretfiles", "400", "read-only", "large"]


def test_home_and_working_folder_are_empty_and_the_clone_is_not_there(
    here: Namespace, ended: Callable[..., Any]
) -> None:
    ended("empty")
    assert here.log("empty").split() == ["1"]


def test_what_a_container_writes_does_not_reach_the_machine(here: Namespace, ended: Callable[..., Any]) -> None:
    assert ended("writer")["exitCode"] == 0
    assert not [
        folder for folder in ("/tmp", "/etc", "/usr", "/var", "/") if Path(folder, "prefect-tpu-was-here").exists()
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("said", "because\n"),
        ("said-elsewhere", "there\n"),
        ("said-much", "x" * 4096),
        ("logged", "1\n2\n3\n"),
        ("unlogged", None),
    ],
)
def test_a_termination_message(name: str, message: str | None, ended: Callable[..., Any]) -> None:
    assert ended(name).get("message") == message


def test_too_much_memory_is_the_end_of_a_container(ended: Callable[..., Any]) -> None:
    found = ended("large")
    assert (found["reason"], found["exitCode"]) == ("OOMKilled", 137)


def test_a_pods_python_has_what_programs_need_and_nothing_of_ours(here: Namespace, ended: Callable[..., Any]) -> None:
    assert ended("ours")["exitCode"] == 1
    printed, *_, last = here.log("ours").splitlines()
    assert (printed, last) == ("[]", "ModuleNotFoundError: No module named 'prefect_tpu'")


def test_a_container_is_known_to_the_api_server_as_its_service_account(
    here: Namespace, ended: Callable[..., Any]
) -> None:
    assert ended("asks")["exitCode"] == 0, here.log("asks")
    assert f'User "system:serviceaccount:{here.name}:default" cannot list resource "nodes"' in here.log("asks")


def test_a_program_that_is_not_there_does_not_start(ended: Callable[..., Any]) -> None:
    found = ended("no-such-program")
    assert (found["reason"], found["exitCode"]) == ("StartError", 128)


def test_a_pod_is_ended_at_its_deadline(here: Namespace, ended: Callable[..., Any]) -> None:
    assert ended("too-long")["exitCode"] == 137
    assert here.pod("too-long")["status"]["reason"] == "DeadlineExceeded"


@pytest.mark.parametrize(("name", "code"), [("polite", 7), ("deaf", 137)])
def test_a_pod_that_is_deleted_is_asked_first_and_killed_after_its_grace(
    name: str, code: int, here: Namespace, until: Callable[..., Any]
) -> None:
    until(lambda: "up" in here.log(name), f"{name} to run")
    here.api.delete(f"{here.pods}/{name}")
    *_, last = here.changes(name)
    assert last["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code


def test_a_container_that_failed_is_started_again_and_its_first_log_is_kept(
    here: Namespace, ended: Callable[..., Any]
) -> None:
    assert ended("again")["exitCode"] == 0
    status = here.pod("again")["status"]["containerStatuses"][0]
    assert (status["restartCount"], status["lastState"]["terminated"]["exitCode"]) == (1, 1)
    assert here.log("again", previous="true") == "run 0\n"
    assert here.log("again") == "run 1\n"


def test_containers_start_after_what_comes_before_them(here: Namespace, ended: Callable[..., Any]) -> None:
    ended("prepared")
    assert here.log("prepared") == "yes\n"


def test_a_failed_preparation_is_the_end_of_the_pod(here: Namespace, ended: Callable[..., Any]) -> None:
    assert ended("unprepared") == {}
    status = here.pod("unprepared")["status"]
    assert status["phase"] == "Failed"
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 5


def test_a_sidecar_ends_after_the_others(here: Namespace, ended: Callable[..., Any]) -> None:
    assert ended("accompanied")["exitCode"] == 0
    status = here.pod("accompanied")["status"]
    assert status["phase"] == "Succeeded"
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
