"""A cluster of GKE by Google's credentials alone: its address, its certificate, and a token that is renewed."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import ssl
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from google.auth.exceptions import RefreshError, TransportError

from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.gcp.errors import ClusterError, Unavailable
from prefect_tpu.infra.gcp.gke_access import OVERRIDE, Endpoint, endpoint_of, is_for_now
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.resources import NODES

CLUSTER = "gke://research/us-east5-a/training"
DESCRIBED = "/v1/projects/research/locations/us-east5-a/clusters/training"
NODE = "/api/v1/nodes/n"


def pem(key: Any) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a key and its certificate, for an API server at 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "api")])
    now = datetime.datetime.now(datetime.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("api") / "api.pem"
    path.write_bytes(pem(key) + signed.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
async def api(anyio_backend: str, certificate: Path, server: Any) -> AsyncGenerator[Any, None]:
    """The API server of the cluster, known by its certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    async with type(server)().running(context) as running:
        yield running


@pytest.fixture
def google(server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Google: gives tokens to a service account, and describes clusters."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    account = {
        "type": "service_account",
        "client_email": "trainer@research.example",
        "private_key": pem(key).decode(),
        "token_uri": f"{server.url}/token",
    }
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    monkeypatch.setenv(OVERRIDE, f"{server.url}/")
    give_tokens(server, lives=3600)
    return server


def give_tokens(server: Any, lives: int) -> None:
    tokens = [server.json({"access_token": f"t{number}", "expires_in": lives}) for number in range(9)]
    server.on("POST", "/token", *tokens)


def described(api: Any, certificate: Path) -> dict[str, Any]:
    _, begin, rest = certificate.read_text().partition("-----BEGIN CERTIFICATE")
    authority = base64.b64encode((begin + rest).encode()).decode()
    return {"endpoint": api.url.removeprefix("https://"), "masterAuth": {"clusterCaCertificate": authority}}


@pytest.mark.anyio
async def test_a_cluster_is_found_and_trusted(google: Any, api: Any, certificate: Path) -> None:
    google.on("GET", DESCRIBED, google.status(503, "", ""), google.json(described(api, certificate)))
    api.on("GET", NODE, api.json({}))
    async with Kubernetes(CLUSTER) as cluster:
        assert (cluster.cluster, cluster.namespace) == (CLUSTER, "default")
        await cluster.get(NODES, "n")
        await cluster.get(NODES, "n")
    assert api.tokens == ["Bearer t0"] * 2
    assert google.tokens == [None, "Bearer t0", "Bearer t0"]


@pytest.mark.parametrize("instead", ["<html>Log in</html>", "null"])
@pytest.mark.anyio
async def test_what_answers_in_googles_place_is_asked_again(
    google: Any, api: Any, certificate: Path, instead: str
) -> None:
    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(text=instead)

    google.on("GET", DESCRIBED, page, google.json(described(api, certificate)))
    async with Kubernetes(CLUSTER):
        pass
    assert len(google.asked("GET", DESCRIBED)) == 2


@pytest.mark.anyio
async def test_a_token_tells_the_address_that_roles_are_bound_to(google: Any, api: Any, certificate: Path) -> None:
    """Without the scope for it, a cluster knows a service account by a number."""
    google.on("GET", DESCRIBED, google.json(described(api, certificate)))
    async with Kubernetes(CLUSTER):
        pass
    ((_, asked),) = google.asked("POST", "/token")
    claims = asked["assertion"].split(".")[1]
    scopes = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["scope"].split()
    assert "https://www.googleapis.com/auth/userinfo.email" in scopes


@pytest.mark.anyio
async def test_a_token_is_renewed_before_it_expires(google: Any, api: Any, certificate: Path) -> None:
    give_tokens(google, lives=60)
    google.on("GET", DESCRIBED, google.json(described(api, certificate)))
    api.on("GET", NODE, api.json({}))
    async with Kubernetes(CLUSTER) as cluster:
        await cluster.get(NODES, "n")
        await cluster.get(NODES, "n")
    assert api.tokens == ["Bearer t1", "Bearer t2"]


@pytest.mark.anyio
async def test_whoever_gives_tokens_may_be_away_for_a_while(google: Any, api: Any, certificate: Path) -> None:
    first, second = (google.json({"access_token": f"t{number}", "expires_in": 60}) for number in range(2))
    google.on("POST", "/token", first, google.drop(), second)
    google.on("GET", DESCRIBED, google.json(described(api, certificate)))
    api.on("GET", NODE, api.json({}))
    async with Kubernetes(CLUSTER) as cluster:
        await cluster.get(NODES, "n")
    assert api.tokens == ["Bearer t1"]


def test_whose_silence_is_for_now_is_told_from_the_error_or_its_cause() -> None:
    away, refused = TransportError("no route"), RefreshError("invalid_grant")
    metadata_server_away = RefreshError(away)
    metadata_server_away.__cause__ = away
    errors = (away, metadata_server_away, RefreshError("busy", retryable=True), refused)
    assert [is_for_now(error) for error in errors] == [True, True, True, False]


@pytest.mark.anyio
async def test_an_account_that_is_refused_a_token_is_not_waited_for(google: Any, api: Any, certificate: Path) -> None:
    refused = google.json({"error": "invalid_grant", "error_description": "account was disabled"}, 400)
    google.on("POST", "/token", google.json({"access_token": "t0", "expires_in": 60}), refused)
    google.on("GET", DESCRIBED, google.json(described(api, certificate)))
    async with Kubernetes(CLUSTER) as cluster:
        with pytest.raises(PlatformError, match="no access token: .*account was disabled.*login") as caught:
            await cluster.get(NODES, "n")
    assert not isinstance(caught.value, Unavailable) and len(google.asked("POST", "/token")) == 2


@pytest.mark.anyio
async def test_a_token_that_is_not_accepted_is_renewed_once(google: Any, api: Any, certificate: Path) -> None:
    google.on("GET", DESCRIBED, google.json(described(api, certificate)))
    api.on("GET", NODE, api.status(401, "Unauthorized", "Unauthorized"), api.json({}))
    async with Kubernetes(CLUSTER) as cluster:
        await cluster.get(NODES, "n")
    assert api.tokens == ["Bearer t0", "Bearer t1"]


@pytest.mark.anyio
async def test_an_api_server_with_another_certificate_is_not_trusted(google: Any, api: Any) -> None:
    google.on("GET", DESCRIBED, google.json({"endpoint": "x", "controlPlaneEndpointsConfig": outside(api)}))
    async with Kubernetes(CLUSTER) as cluster:
        with pytest.raises(ClusterError, match="is not trusted"):
            await cluster.get(NODES, "n")
    assert api.tokens == []


def outside(api: Any) -> dict[str, Any]:
    return {"dnsEndpointConfig": {"endpoint": api.url.removeprefix("https://"), "allowExternalTraffic": True}}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (404, UsageError, f"There is no cluster {CLUSTER}: said. `gcloud container clusters list --project research`"),
        (403, PlatformError, "said. Ask for the role `roles/container.clusterViewer` in project research"),
    ],
)
async def test_what_google_refuses_is_said(google: Any, code: int, kind: type[Exception], says: str) -> None:
    google.on("GET", DESCRIBED, google.json({"error": {"message": "said"}}, code))
    with pytest.raises(kind, match=says):
        async with Kubernetes(CLUSTER):
            pass


@pytest.mark.anyio
async def test_credentials_that_give_no_token_are_said(google: Any) -> None:
    google.on("POST", "/token", google.json({"error": "invalid_grant", "error_description": "Account deleted"}, 400))
    with pytest.raises(PlatformError, match="Google gave no access token.*Account deleted"):
        async with Kubernetes(CLUSTER):
            pass


@pytest.mark.anyio
async def test_credentials_that_are_not_there_are_said(google: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/credentials.json")
    with pytest.raises(UsageError, match="gcloud auth application-default login"):
        async with Kubernetes(CLUSTER):
            pass


IP = {"endpoint": "10.0.0.2", "masterAuth": {"clusterCaCertificate": base64.b64encode(b"PEM").decode()}}


@pytest.mark.parametrize(
    ("dns", "ip", "endpoint"),
    [
        ({}, {}, Endpoint(url="https://10.0.0.2", authority="PEM")),
        ({"endpoint": "gke-x.goog"}, {"enabled": True}, Endpoint(url="https://10.0.0.2", authority="PEM")),
        (
            {"endpoint": "gke-x.goog", "allowExternalTraffic": True},
            {},
            Endpoint(url="https://gke-x.goog", authority=None),
        ),
    ],
)
def test_the_address_that_is_open_to_us(dns: dict[str, Any], ip: dict[str, Any], endpoint: Endpoint) -> None:
    config = {"dnsEndpointConfig": dns, "ipEndpointsConfig": ip}
    assert endpoint_of({**IP, "controlPlaneEndpointsConfig": config}, CLUSTER) == endpoint


@pytest.mark.parametrize(
    "description",
    [
        {"status": "PROVISIONING"},
        {**IP, "status": "RUNNING", "controlPlaneEndpointsConfig": {"ipEndpointsConfig": {"enabled": False}}},
    ],
)
def test_a_cluster_without_an_address_says_its_status(description: dict[str, Any]) -> None:
    with pytest.raises(PlatformError, match=description["status"]):
        endpoint_of(description, CLUSTER)
