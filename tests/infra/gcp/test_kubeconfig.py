"""What the kubeconfig says of a context, and how its credential plugin stays fresh."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.errors import Unauthorized, Unavailable
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.patience import Patience
from prefect_tpu.infra.gcp.resources import NODES

pytestmark = [
    pytest.mark.anyio,
    # of Python 3.12 and newer, in the Kubernetes library
    pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning:kubernetes.aio.config.kube_config"),
]
NODE = "/api/v1/nodes/n"
Write = Callable[..., Path]

PLUGIN = """
import json, pathlib, sys
counter = pathlib.Path({counter!r})
number = len(counter.read_text()) if counter.exists() else 0
counter.write_text("x" * (number + 1))
if number in {fails}:
    sys.exit("no network")
status = {{"token": f"token-{{number}}", **{status}}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """A user whose credentials come from a program: each run gives another token."""

    def make(expires_in: timedelta | None = None, fails: Collection[int] = ()) -> dict[str, Any]:
        expiry = {} if expires_in is None else {"expirationTimestamp": f"{datetime.now(UTC) + expires_in:%FT%TZ}"}
        script = tmp_path / "plugin.py"
        script.write_text(PLUGIN.format(counter=str(tmp_path / "runs"), status=json.dumps(expiry), fails=fails))
        return {"exec": exec_of(sys.executable, str(script))}

    return make


def exec_of(command: str, *arguments: str) -> dict[str, Any]:
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": [*arguments]}


async def test_the_current_context_is_taken(server: Any, kubeconfig: Write) -> None:
    kubeconfig(server.url)
    server.on("GET", NODE, server.json({}))
    async with Kubernetes() as cluster:
        assert (cluster.cluster, cluster.namespace) == ("'test'", "research")
        await cluster.get(NODES, "n")
    assert server.tokens == ["Bearer secret-token"]


async def test_a_context_is_taken_by_its_name(server: Any, kubeconfig: Write) -> None:
    kubeconfig(server.url, **{"current-context": "another"})
    async with Kubernetes("test") as cluster:
        assert cluster.cluster == "'test'"


async def test_no_kubeconfig_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="No cluster is known.*get-credentials"):
        async with Kubernetes():
            pass


@pytest.mark.parametrize(
    ("top", "cluster", "says"),
    [
        ({}, "tset", "has no context 'tset': give one of test"),
        ({"current-context": ""}, None, "has no current context: name one of test"),
        ({"current-context": "gone"}, None, "has no context 'gone'"),
        ({"clusters": []}, None, "Context 'test' of the kubeconfig cannot be used"),
        ({"contexts": "nonsense"}, None, "cannot be read"),
    ],
)
async def test_what_the_kubeconfig_lacks_is_said(
    kubeconfig: Write, top: dict[str, Any], cluster: str | None, says: str
) -> None:
    path = kubeconfig("http://127.0.0.1:1", **top)
    with pytest.raises(UsageError, match=says) as caught:
        async with Kubernetes(cluster):
            pass
    assert "secret-token" not in str(caught.value)
    assert str(path) in str(caught.value) or "Context 'test'" in str(caught.value)


async def test_a_file_that_is_no_kubeconfig_is_said(kubeconfig: Write) -> None:
    kubeconfig("http://127.0.0.1:1").write_text("a: [")
    with pytest.raises(UsageError, match="cannot be read"):
        async with Kubernetes():
            pass


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("/nowhere/gke-gcloud-auth-plugin", "plugin '/nowhere/gke-gcloud-auth-plugin' is not installed"),
        ("/bin/false", "process returned 1"),
        ("/bin/true", "failed to decode process output"),
    ],
)
async def test_a_credential_plugin_that_fails_is_said(kubeconfig: Write, command: str, says: str) -> None:
    kubeconfig("http://127.0.0.1:1", {"exec": exec_of(command)})
    with pytest.raises(UsageError, match=f"{says}.*name the cluster as gke://"):
        async with Kubernetes():
            pass


async def test_a_plugin_is_run_again_shortly_before_its_token_expires(
    server: Any, kubeconfig: Write, plugin: Callable[..., dict[str, Any]]
) -> None:
    kubeconfig(server.url, plugin(timedelta(minutes=1)))
    server.on("GET", NODE, server.json({}))
    async with Kubernetes() as cluster:
        await cluster.get(NODES, "n")
        await cluster.get(NODES, "n")
    assert server.tokens == ["Bearer token-1", "Bearer token-2"]


@pytest.mark.parametrize("expires_in", [None, timedelta(hours=1)])
async def test_a_plugin_is_run_again_when_its_token_is_not_accepted(
    server: Any, kubeconfig: Write, plugin: Callable[..., dict[str, Any]], expires_in: timedelta | None
) -> None:
    kubeconfig(server.url, plugin(expires_in))
    unknown = server.status(401, "Unauthorized", "Unauthorized")
    server.on("GET", NODE, server.json({}), unknown, server.json({}), unknown)
    async with Kubernetes() as cluster:
        await cluster.get(NODES, "n")
        await cluster.get(NODES, "n")
        with pytest.raises(Unauthorized, match="Log in again"):
            await cluster.get(NODES, "n")
    assert server.tokens == [f"Bearer token-{number}" for number in (0, 0, 1, 1, 2)]


async def test_a_plugin_may_fail_for_a_while_once_it_has_worked(
    server: Any, kubeconfig: Write, plugin: Callable[..., dict[str, Any]], patience: Patience
) -> None:
    kubeconfig(server.url, plugin(timedelta(minutes=1), fails=(1, 2)))  # a failed run, and another that tells why
    server.on("GET", NODE, server.json({}))
    async with Kubernetes(patience=patience) as cluster:
        await cluster.get(NODES, "n")
    assert server.tokens == ["Bearer token-3"]


async def test_a_plugin_that_fails_for_good_is_said(
    server: Any, kubeconfig: Write, plugin: Callable[..., dict[str, Any]], patience: Patience
) -> None:
    kubeconfig(server.url, plugin(timedelta(minutes=1), fails=range(1, 999)))
    async with Kubernetes(patience=replace(patience, retry=0.5)) as cluster:
        with pytest.raises(Unavailable, match="Cluster 'test' cannot be asked: .*no network'. Log in again, or name"):
            await cluster.get(NODES, "n")
    assert server.tokens == []
