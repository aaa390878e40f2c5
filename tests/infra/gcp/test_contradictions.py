"""An accelerator's capacity and the settings of pods say the same, or it is said which to leave out."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.gcp.contradictions import contradiction
from prefect_tpu.infra.pods import PodSettings
from tests.infra.gcp.golden_plans import GOLDEN, pod_plan


def of(name: str, **pods: Any) -> str | None:
    return contradiction(name, resolve(name), PodSettings(image="python", **pods))


@pytest.mark.parametrize(
    ("name", "pods", "says"),
    [
        ("v6e-16:queue", {}, "waits in a queue, and none is named: give --queue"),
        ("v6e-16:spot", {"reservation": "block"}, "'v6e-16:spot' and the reservation 'block' contradict each other"),
        ("v6e-16:on-demand", {"reservation": "block"}, "contradict each other"),
        ("v6e-16:flex-start", {"reservation": "block"}, "contradict each other"),
        ("v6e-16:reserved=a", {"reservation": "block"}, "names another reservation than 'block'"),
    ],
)
def test_what_contradicts_itself(name: str, pods: dict[str, Any], says: str) -> None:
    assert says in (of(name, **pods) or "")


def test_what_fits() -> None:
    assert of("v6e-16") is None and of("v6e-16:spot") is None and of("v6e-16:reserved") is None
    assert of("v6e-16", reservation="block") is None and of("v6e-16:reserved=block", reservation="block") is None
    assert of("v6e-16:queue", queue="tpus") is None and of("v6e-16:queue", provisioning_request="r") is None
    for golden in GOLDEN.values():
        assert contradiction(golden.accelerator, resolve(golden.accelerator), pod_plan(golden).pods) is None
