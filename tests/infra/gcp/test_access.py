"""How a pod reaches its own cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.access import is_inside_a_pod, reach_from_inside

pytestmark = pytest.mark.anyio


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that Kubernetes puts into each pod."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    for name, content in {"token": "t0", "ca.crt": "PEM", "namespace": "research\n"}.items():
        (tmp_path / name).write_text(content)
    return tmp_path


async def test_a_pod_uses_its_service_account(pod: Path) -> None:
    assert is_inside_a_pod(pod)
    access = reach_from_inside(pod)
    assert (access.namespace, access.configuration.host) == ("research", "https://10.0.0.1:443")
    assert access.configuration.ssl_ca_cert == str(pod / "ca.crt")
    assert await access.configuration.get_api_key_with_prefix("BearerToken") == "bearer t0"
    assert not await access.renew()


async def test_a_pod_without_a_service_account_is_told(pod: Path) -> None:
    (pod / "token").unlink()
    assert not is_inside_a_pod(pod)
    with pytest.raises(UsageError, match="automountServiceAccountToken"):
        reach_from_inside(pod)


def test_elsewhere_is_no_pod(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert not is_inside_a_pod(pod)
