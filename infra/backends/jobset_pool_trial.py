"""Can node pools be made in this cluster, and does one cost money that nobody wants? For `prefect-tpu doctor`.

Pools are listed and not made: whether whoever asks may make one, Google says only once one is asked for.
"""

from __future__ import annotations

import time

from prefect_tpu.infra.checks import Check, ok, warn
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.gcp.clusters import ClusterName, GkeCluster
from prefect_tpu.infra.gcp.google_permissions import MAKING_POOLS, REACHING

NAME = "node pools"


async def pool_checks(cluster: str | None) -> list[Check]:
    """Nothing of a cluster that is not known to be one of GKE: no pool is made there."""
    place = ClusterName.parse(cluster).place
    return [] if place is None else [await _listed(place, cluster)]


async def _listed(place: GkeCluster, cluster: str | None) -> Check:
    from prefect_tpu.infra.gcp.node_pools import NodePools, PoolsError  # Google's client loads only for this
    from prefect_tpu.infra.gcp.patience import Patience

    try:
        facts = await NodePools(place, Patience(request=10.0, retry=2.0)).look()
    except PoolsError as exc:
        needed = ", ".join((*REACHING.permissions, *MAKING_POOLS.permissions))
        return warn(NAME, str(exc), f"Only jobs with make_pools need them. They need {needed} in the project.")
    except (PlatformError, UsageError) as exc:
        return warn(NAME, str(exc), "Only jobs with make_pools need them.")
    owners = {name: pool.owner for name, pool in facts.pools.items() if pool.owner is not None}
    old = sorted(name for name, owner in owners.items() if owner and owner.deadline < time.time())
    found = f"{len(facts.pools)}, of which {len(owners)} of prefect-tpu"
    if old:
        return warn(NAME, f"{found}; past their deadline: {', '.join(old)}", f"prefect-tpu reap --cluster {cluster}")
    return ok(NAME, f"{found}; that they may be seen is known, not that they may be made")
