"""What does `prefect-tpu doctor` want to know of a cluster?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """About which cluster, and what jobs would want of it.

    zone: where their nodes would be. make_pools: whether they are made for each job, and none taken that is there.
    """

    cluster: str | None = None
    namespace: str = "default"
    accelerators: tuple[str, ...] = ()
    queue: str | None = None
    service_account: str | None = None
    pull_secrets: tuple[str, ...] = ()
    zone: str | None = None
    reservation: str | None = None
    make_pools: bool = False
