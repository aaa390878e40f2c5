"""How is a cluster of GKE reached with Google's Application Default Credentials, without gcloud and kubeconfig?"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import google.auth
import google.auth.credentials
import google.auth.exceptions
import google.auth.transport.requests
import httpx
from kubernetes.aio.client.configuration import Configuration

from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.gcp.access import Access
from prefect_tpu.infra.gcp.clusters import GkeCluster
from prefect_tpu.infra.gcp.errors import Unavailable
from prefect_tpu.infra.gcp.google_api import SCOPE
from prefect_tpu.infra.gcp.patience import Patience, persevere

OVERRIDE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER"  # gcloud's own name for it
_CONTAINER_API = "https://container.googleapis.com/"
# By the second a cluster knows a service account by its email address, as roles name it, and not by a number.
_SCOPES = (SCOPE, "https://www.googleapis.com/auth/userinfo.email")


async def reach_gke(cluster: GkeCluster, name: str) -> Access:
    """The way to a cluster of GKE.

    Raises:
        UsageError: there are no credentials, or there is no such cluster.
        PlatformError: Google refuses, or does not answer.
    """
    token = await GoogleToken.find()
    described = await _describe(cluster, name, token)
    endpoint = endpoint_of(described, name)
    configuration = Configuration(host=endpoint.url, ca_cert_data=endpoint.authority)

    async def refresh(_: Configuration) -> None:
        configuration.api_key["BearerToken"] = f"Bearer {await token.value()}"

    async def renew() -> bool:
        await token.renew()
        return True

    configuration.refresh_api_key_hook = refresh  # type: ignore[assignment]  # the library infers None
    return Access(configuration=configuration, cluster=name, renew=renew)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where an API server is; `authority` is the certificate that it is known by, None for a public one."""

    url: str
    authority: str | None


def endpoint_of(described: Mapping[str, Any], name: str) -> Endpoint:
    """The address in the Container API's description of a cluster.

    The DNS-based one where it is open to the outside, for it is reached from anywhere; else the IP address.
    """
    endpoints = described.get("controlPlaneEndpointsConfig") or {}
    dns, ip = endpoints.get("dnsEndpointConfig") or {}, endpoints.get("ipEndpointsConfig") or {}
    if dns.get("endpoint") and dns.get("allowExternalTraffic"):
        return Endpoint(url=f"https://{dns['endpoint']}", authority=None)
    authority = (described.get("masterAuth") or {}).get("clusterCaCertificate")
    if described.get("endpoint") and authority and ip.get("enabled", True):
        return Endpoint(url=f"https://{described['endpoint']}", authority=base64.b64decode(authority).decode())
    raise PlatformError(
        f"Cluster {name} has no address to reach it at; its status is {described.get('status', 'unknown')}."
        " Wait until it is RUNNING, or open its DNS-based endpoint."
    )


class GoogleToken:
    """An access token of the Application Default Credentials, renewed before it expires."""

    def __init__(self, credentials: google.auth.credentials.Credentials) -> None:
        self._credentials = credentials
        self._lock = asyncio.Lock()

    @classmethod
    async def find(cls) -> GoogleToken:
        """The credentials of this machine. Raises `UsageError` where there are none."""
        try:
            credentials, _ = await asyncio.to_thread(google.auth.default, scopes=_SCOPES)
        except google.auth.exceptions.GoogleAuthError as exc:
            raise UsageError(
                f"There are no usable Google credentials: {exc} Run `gcloud auth application-default login`, set"
                " GOOGLE_APPLICATION_CREDENTIALS to a file of them, or name the cluster by a kubeconfig context."
            ) from exc
        return cls(credentials)

    @property
    def quota_project(self) -> str | None:
        """The project that pays for the requests, where the credentials name one."""
        return getattr(self._credentials, "quota_project_id", None)

    async def value(self) -> str:
        """A token that is good for minutes."""
        async with self._lock:
            if not self._credentials.valid:
                await self._refresh()
            return str(self._credentials.token)

    async def renew(self) -> None:
        """Take a new one, whatever the old one says of itself."""
        async with self._lock:
            await self._refresh()

    async def _refresh(self) -> None:
        request = google.auth.transport.requests.Request()
        try:
            await asyncio.to_thread(self._credentials.refresh, request)
        except google.auth.exceptions.GoogleAuthError as exc:
            if is_for_now(exc):
                raise Unavailable(
                    f"Google gave no access token for now: {exc}. Check the network.", is_unprocessed=True
                ) from exc
            raise PlatformError(
                f"Google gave no access token: {exc}. Run `gcloud auth application-default login` again, or check the"
                " service account."
            ) from exc
        finally:
            request.session.close()


def is_for_now(error: google.auth.exceptions.GoogleAuthError) -> bool:
    """Whether whoever gives tokens was out of reach or too busy. The metadata server's silence is only the cause."""
    lost = google.auth.exceptions.TransportError
    return error.retryable or isinstance(error, lost) or isinstance(error.__cause__, lost)


async def _describe(cluster: GkeCluster, name: str, token: GoogleToken) -> dict[str, Any]:
    patience = Patience()
    base = (os.environ.get(OVERRIDE) or _CONTAINER_API).rstrip("/")

    async def ask() -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {await token.value()}"}
        if token.quota_project:
            headers["X-Goog-User-Project"] = token.quota_project
        try:
            async with httpx.AsyncClient(timeout=patience.request) as client:
                response = await client.get(f"{base}/v1/{cluster.resource_name}", headers=headers)
        except httpx.HTTPError as exc:
            raise Unavailable(
                f"Could not find cluster {name}: {base} did not answer: {exc or type(exc).__name__}. Check the network."
            ) from exc
        return _described(response, cluster, name)

    return await persevere(ask, patience, seconds=patience.retry, is_worth=lambda error: isinstance(error, Unavailable))


def _described(response: httpx.Response, cluster: GkeCluster, name: str) -> dict[str, Any]:
    if response.is_success:
        try:
            return dict(response.json())
        except (ValueError, TypeError) as exc:
            raise Unavailable(
                f"Could not find cluster {name}: something else than Google answered. Look for a proxy or a page to log"
                " in on the way."
            ) from exc
    said = _message(response)
    if response.status_code == 404:
        raise UsageError(
            f"There is no cluster {name}: {said} `gcloud container clusters list --project {cluster.project}` tells"
            " which there are, and where."
        )
    if response.status_code == 429 or response.status_code >= 500:
        raise Unavailable(f"Could not find cluster {name}: Google answers {response.status_code}: {said} Try later.")
    raise PlatformError(
        f"Could not find cluster {name}: {said} Ask for the role `roles/container.clusterViewer` in project"
        f" {cluster.project}, which has container.clusters.get, and check that the Kubernetes Engine API is enabled."
    )


def _message(response: httpx.Response) -> str:
    try:
        return f"{str(response.json()['error']['message']).rstrip('.')}."
    except (ValueError, KeyError, TypeError):
        return f"HTTP {response.status_code}."
