"""Where Google's APIs are, and that no call keeps anybody waiting."""

from __future__ import annotations

import threading

import pytest
from google.auth.credentials import AnonymousCredentials

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.google_api import CLOUD_QUOTAS, Address, address_of, answered, credentials_for


@pytest.mark.parametrize(
    ("url", "host", "is_plain"),
    [
        ("", "cloudquotas.googleapis.com", False),
        ("https://cloudquotas.example/", "cloudquotas.example", False),
        ("http://127.0.0.1:8080", "127.0.0.1:8080", True),
        ("http://localhost:8080/", "localhost:8080", True),
        ("http://[::1]:8080", "[::1]:8080", True),
    ],
)
def test_gclouds_own_variable_names_another_address(
    monkeypatch: pytest.MonkeyPatch, url: str, host: str, is_plain: bool
) -> None:
    monkeypatch.setenv(CLOUD_QUOTAS.override, url)
    assert address_of(CLOUD_QUOTAS) == Address(host=host, is_plain=is_plain)


@pytest.mark.parametrize(
    "url", ["http://cloudquotas.example", "http://10.0.0.1:80", "cloudquotas.example", "https://", "http://[::1"]
)
def test_nothing_is_asked_in_the_plain_of_another_machine(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(CLOUD_QUOTAS.override, url)
    with pytest.raises(UsageError, match="name an https address, or http on this machine"):
        address_of(CLOUD_QUOTAS)


def test_credentials_are_never_sent_in_the_plain() -> None:
    assert isinstance(credentials_for(Address(host="127.0.0.1:1", is_plain=True)), AnonymousCredentials)


@pytest.mark.anyio
async def test_a_call_answers_raises_or_is_left_alone(anyio_backend: str) -> None:
    assert await answered(lambda: 7, 10) == 7
    with pytest.raises(ZeroDivisionError):
        await answered(lambda: 1 / 0, 10)
    never = threading.Event()
    with pytest.raises(TimeoutError):
        await answered(never.wait, 0.05)
    never.set()
