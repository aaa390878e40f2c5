"""The fakes of Cloud Quotas and Cloud Monitoring for a test, which this process takes for Google."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cloud_monitoring import Monitoring
    from cloud_quotas import CloudQuotas


@pytest.fixture
def google_quotas(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudQuotas]:
    import cloud_quotas  # Google's libraries load only for the tests that ask Google

    with cloud_quotas.running() as quotas:
        monkeypatch.setenv(cloud_quotas.VARIABLE, quotas.url)
        yield quotas


@pytest.fixture
def google_usage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Monitoring]:
    import cloud_monitoring

    with cloud_monitoring.running() as monitoring:
        monkeypatch.setenv(cloud_monitoring.VARIABLE, monitoring.url)
        yield monitoring
