"""What is missing, in a sentence."""

from __future__ import annotations

from prefect_tpu.infra.policy.quota import Limit, missing

MEMORY = Limit(what="memory", unit="MiB", needed=1000, available=512.5)
DISK = Limit(what="disk", unit="MiB", needed=256, available=256)
HOSTS = Limit(what="hosts", unit="hosts", needed=32, available=16)


def test_exactly_enough_is_enough() -> None:
    assert DISK.is_enough
    assert missing((DISK,)) is None
    assert missing(()) is None


def test_everything_that_is_missing_is_named_with_its_numbers() -> None:
    assert missing((MEMORY, DISK, HOSTS)) == (
        "memory: 1000 MiB needed, 512.5 MiB available; hosts: 32 hosts needed, 16 hosts available."
    )
