"""What a call asks for is the same once it has been parameters of the flow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.flows.asking import ask, parameters
from prefect_tpu.flows.form import Pods, Timing
from prefect_tpu.infra.pods import PodSettings, in_pods

FULL = {
    "namespace": "research",
    "queue": "tpus",
    "service_account": "trainer",
    "secrets": {"TOKEN": "hub/token"},
    "volumes": {"/data": "claim:data"},
    "python": "/opt/python",
    "pull_secrets": ["registry"],
    "cpu": "8",
    "memory": "64Gi",
    "ephemeral_storage": "50Gi",
    "shared_memory": "16Gi",
    "priority_class": "high",
    "reservation": "block",
    "provisioning_request": "request",
    "node_selector": {"pool": "a"},
    "labels": {"team": "vision"},
    "annotations": {"note": "a"},
    "ttl": 0,
}


def settings_of(given: dict[str, Any]) -> dict[str, Any]:
    """As the flow reads its parameters."""
    said = {"image": given["image"], "cluster": given["cluster"]}
    pods = Pods.model_validate(given["pods"]).model_dump(exclude_defaults=True)
    return in_pods(given["backend"], {**said, **pods})


@pytest.mark.parametrize("pods", [FULL, Pods(**FULL), {}])  # type: ignore[arg-type]
def test_settings_of_pods_arrive_at_the_flow(tmp_path: Path, pods: Any) -> None:
    options = {"image": "python", "cluster": "trainer", "slices": 2, "pods": pods, "name": "digits"}
    output = f"file://{tmp_path}/jobs"
    request = ask("train", "sh", "v6e-16", {**options, "arguments": ["-c", "true"], "output": output}).request
    given = json.loads(json.dumps(parameters(request)))
    assert (request.settings["backend"], given["backend"], given["slices"]) == ("jobset", "jobset", 2)
    assert settings_of(given)["pods"] == request.settings["pods"]
    plain = {name: value for name, value in (FULL if pods else {}).items() if name != "pull_secrets"}
    wanted = PodSettings(
        image="python", cluster="trainer", **plain, **({"pull_secrets": ("registry",)} if pods else {})
    )  # type: ignore[arg-type]
    assert request.settings["pods"] == wanted


def test_without_a_word_of_pods_hosts_are_processes_here(tmp_path: Path) -> None:
    request = ask("train", "sh", "cpu", {"output": tmp_path, "timing": Timing(grace=5.0)}).request
    given = parameters(request)
    assert request.settings == {"grace": 5.0}
    assert not {"backend", "slices", "image", "cluster", "pods"} & given.keys()
