"""Where in Google Cloud is a cluster, by its name alone, and may a zone be one of its own?"""

from __future__ import annotations

import re
from collections.abc import Mapping

from prefect_tpu.infra.errors import UsageError

_PROJECT = r"(?P<project>[a-z0-9.:-]+)"  # a domain may stand before the project, as in example.com:research
_LOCATION, _CLUSTER = r"(?P<location>[a-z]+-[a-z]+[0-9]+(-[a-z0-9]+)?)", r"(?P<cluster>[a-z0-9-]+)"
# As `--cluster` takes it, and as gcloud names the contexts that it writes.
_NAMES = (
    re.compile(rf"gke://{_PROJECT}/{_LOCATION}/{_CLUSTER}"),
    re.compile(rf"gke_{_PROJECT}_{_LOCATION}_{_CLUSTER}"),
)


def parts_of(cluster: str | None) -> Mapping[str, str] | None:
    """`project`, `location` and `cluster`, as a cluster's name tells them; None where it tells none."""
    found = next((match for name in _NAMES if (match := name.fullmatch(cluster or ""))), None)
    return None if found is None else found.groupdict()


def check_cluster(cluster: str | None) -> None:
    """Raises `UsageError` where it is written like an address and is not a cluster's."""
    if "://" in (cluster or "") and parts_of(cluster) is None:
        raise UsageError(
            f"Cluster {cluster!r} is not the name of one: give a kubeconfig context, or gke://project/location/cluster"
            " such as gke://my-project/us-east5-a/training."
        )


def location_of(cluster: str | None) -> str | None:
    """The zone or region that a cluster's name tells; None where it tells none."""
    parts = parts_of(cluster)
    return None if parts is None else parts["location"]


def region_of(location: str) -> str:
    """`us-east5` of `us-east5` and of `us-east5-b`."""
    return "-".join(location.split("-")[:2])


def zone_in(location: str) -> str | None:
    """The location where it is a zone; None where it is a region, which has several."""
    return None if location == region_of(location) else location


def may_have(cluster: str | None, zone: str) -> bool:
    """Whether nodes of this cluster may be in this zone: those of GKE are in its own region, of others nobody knows."""
    location = location_of(cluster)
    return location is None or region_of(location) == region_of(zone)
