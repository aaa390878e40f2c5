"""Do the name of an accelerator and the settings of pods contradict each other, or these among themselves?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.gcp.placement import ZONE
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.zones import location_of, may_have, parts_of, region_of, zone_in


def contradiction(name: str, shape: Slice, pods: PodSettings) -> str | None:
    """What to change, as a sentence; None where nothing is."""
    kind, _, reservation = (shape.capacity or "").partition("=")
    if kind == "queue" and not (pods.queue or pods.provisioning_request):
        return (
            f"Accelerator {name!r} waits in a queue, and none is named: give --queue of Kueue, or --pod"
            " provisioning_request=NAME."
        )
    if pods.reservation is None or kind in ("", "queue"):
        return None
    if kind != "reserved":
        return f"Accelerator {name!r} and the reservation {pods.reservation!r} contradict each other: leave one out."
    if reservation and reservation != pods.reservation:
        return f"Accelerator {name!r} names another reservation than {pods.reservation!r}: leave one of them out."
    return None


def contradiction_of_places(pods: PodSettings) -> str | None:
    """Where the slices shall be, and who makes them: what to change, as a sentence; None where nothing is."""
    clusters = (pods.cluster, *pods.fallback_clusters)
    if pods.zones and ZONE in pods.node_selector:
        return f"Zones are given twice, as zones and as {ZONE} of node_selector: leave the latter out."
    if why := _same_cluster(clusters) or _other_nodes(pods):
        return why
    for zone in pods.zones:
        if not any(may_have(cluster, zone) for cluster in clusters):
            regions = " and ".join(dict.fromkeys(region_of(location_of(cluster) or "") for cluster in clusters))
            return f"Zone {zone!r} is not in {regions}, where the job's clusters are: name a zone or a cluster there."
    for cluster in clusters:
        if pods.zones and not any(may_have(cluster, zone) for zone in pods.zones):
            return f"None of the zones is in the region of cluster {cluster!r}: name one that is, or leave it out."
        if pods.make_pools and location_of(cluster) is None:
            which = "no cluster is named" if cluster is None else f"cluster {cluster!r} is not known to be Google's"
            return (
                f"Node pools are to be made by Google's API, and {which}: name it as gke://project/location/cluster,"
                " or leave make_pools out."
            )
    return None


def _same_cluster(clusters: Sequence[str | None]) -> str | None:
    """One cluster has several names: the one that gcloud gives its context tells its place too."""
    known = {name: parts_of(name) for name in clusters}
    for one, other in combinations(known, 2):
        if known[one] is not None and known[one] == known[other]:
            return f"{one!r} and {other!r} are the same cluster: leave one of them out."
    return None


def _other_nodes(pods: PodSettings) -> str | None:
    """Pods that may only be on nodes that are chosen otherwise would never be on those that are made for them."""
    named = "node_selector" if pods.node_selector else "provisioning_request" if pods.provisioning_request else None
    if not pods.make_pools or named is None:
        return None
    return f"{named} chooses among nodes that others have made, and make_pools makes them: leave one of them out."


def zones_to_name(pods: PodSettings) -> str | None:
    """That pools cannot be made before somebody names zones: a cluster of a region has several."""
    if not pods.make_pools or pods.zones:
        return None
    for cluster in (pods.cluster, *pods.fallback_clusters):
        location = location_of(cluster)
        if location is not None and zone_in(location) is None:
            return f"A node pool is made in one zone, and cluster {cluster} has a region: name zones of it (--zone)."
    return None
