"""Who may speak to a control plane: its programs, its administrator, and service accounts that a test makes."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from control_plane.api import Api

ADMINISTRATOR = "admin"
KUBELET = "system:process-kubelet"
# One name each, so that managed fields tell who did what. All may do everything, as the tests' own machinery may.
PROGRAMS = ("kube-controller-manager", "kube-scheduler", "jobset", "kueue")
TOKEN_SECONDS = 3600 * 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where the API server is and by whom its certificate is signed."""

    url: str
    authority: Path


def new_tokens() -> dict[str, str]:
    """A token for each user that is there from the start."""
    return {user: secrets.token_hex(16) for user in (ADMINISTRATOR, KUBELET, *(f"system:{one}" for one in PROGRAMS))}


def write_tokens(path: Path, tokens: Mapping[str, str]) -> None:
    """As the API server reads them: token, user, id, groups."""
    path.touch(mode=0o600)
    path.write_text("".join(f'{token},{user},{user},"system:masters"\n' for user, token in tokens.items()))


def write_kubeconfig(path: Path, server: Server, token: str, namespace: str = "default") -> Path:
    """A kubeconfig with one context, `test`."""
    cluster = {"server": server.url, "certificate-authority": str(server.authority)}
    path.touch(mode=0o600)
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": "user", "user": {"token": token}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user", "namespace": namespace}}],
            }
        )
    )
    return path


def make_service_account(api: Api, namespace: str, name: str, rules: Sequence[Mapping[str, Any]]) -> str:
    """A service account that may do what `rules` (of a Role) allow in its namespace; its token."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    group = "rbac.authorization.k8s.io"
    api.apply(f"{accounts}/{name}", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": name}, "rules": list(rules)}
    api.apply(f"{roles}/roles/{name}", role)
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    api.apply(f"{roles}/rolebindings/{name}", binding)
    return token_of(api, namespace, name)


def token_of(api: Api, namespace: str, name: str, audience: str | None = None) -> str:
    """A token of a service account, as the TokenRequest API issues it."""
    spec: dict[str, Any] = {"expirationSeconds": TOKEN_SECONDS, **({"audiences": [audience]} if audience else {})}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    issued = api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", request)
    return str(issued["status"]["token"])
