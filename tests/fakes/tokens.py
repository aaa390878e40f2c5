"""Where Google gives access tokens: a service account's key is good for the token of whoever the test says.

with tokens.running("the token", folder) as google:
    …                                             # with google.environment set
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from serving import Serving

LIFETIME_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """environment: by which a process finds the key."""

    environment: Mapping[str, str]


class _Server(Serving):
    def __init__(self, token: str) -> None:
        super().__init__(_Handler, "fake-tokens")
        self.token = token


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        given = {"access_token": self.server.token, "expires_in": LIFETIME_SECONDS, "token_type": "Bearer"}
        body = json.dumps(given).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """A test's output is its own."""


@contextmanager
def running(token: str, folder: Path) -> Iterator[Tokens]:
    """The server, and the key of an account in a folder, for its owner's eyes."""
    with _Server(token) as server:
        key = _write_key(folder / "google-account.json", f"http://127.0.0.1:{server.server_port}/token")
        yield Tokens(environment={"GOOGLE_APPLICATION_CREDENTIALS": str(key)})


def _write_key(path: Path, token_uri: str) -> Path:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(encoding, form, serialization.NoEncryption()).decode()
    account = {
        "type": "service_account",
        "project_id": "research",
        "client_email": "prefect-tpu-driver@research.iam.gserviceaccount.com",
        "private_key": pem,
        "token_uri": token_uri,
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(account))
    return path
