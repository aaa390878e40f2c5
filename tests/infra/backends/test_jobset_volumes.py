"""A volume that cannot be laid down is a symptom for as long as it cannot, though its event stays for an hour."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.backends.jobset_facts import ContainerFacts, EventFacts, Facts, JobSetFacts, PodFacts, Said
from prefect_tpu.infra.backends.jobset_symptoms import MOUNT_SECONDS, symptoms, unbearable
from prefect_tpu.infra.errors import FailureKind

CREATING = ContainerFacts(waiting=Said(reason="ContainerCreating", message=""))
POD = PodFacts(
    name="digits-1-s-0-0", uid="u", host=0, slice=0, phase="Pending", node="node-0", container=CREATING
)  # fmt: skip


def facts(*reasons: str) -> Facts:
    events = tuple(
        EventFacts(kind="Pod", name=POD.name, said=Said(reason=reason, message="no such driver"), at=float(moment))
        for moment, reason in enumerate(reasons)
    )
    return Facts(attempt=1, slices=1, hosts=1, jobset=JobSetFacts(name="digits-1", uid="v"), pods=(POD,), events=events)


def test_a_volume_that_stays_away_ends_the_attempt() -> None:
    seen = facts("Scheduled", "FailedMount")
    (found,) = symptoms(seen)
    assert found.cause.kind is FailureKind.REFUSED
    assert "volumes cannot be laid down (FailedMount: no such driver)" in found.cause.message
    assert unbearable(seen, {found.key: MOUNT_SECONDS - 1}) == ()
    assert unbearable(seen, {found.key: MOUNT_SECONDS}) == (found,)


@pytest.mark.parametrize("later", ["Pulling", "Pulled", "Created"])
def test_a_volume_that_came_late_is_none_though_the_image_takes_long(later: str) -> None:
    assert symptoms(facts("FailedMount", later)) == ()
