"""The way of one driver to its servers: a proxy before each, and the environment that leads through them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster import Cluster
from control_plane import users
from faults import Faults, Kind, Traffic, google_says, kubernetes_says
from faulty import Faulty, Tls
from gcs import Gcs

CLUSTER, BUCKET = "cluster", "bucket"  # what the servers are called in what passed
# What Cloud Storage does not do: it has no watches, and a conflict of its is no passing one.
OF_BUCKETS = tuple(kind for kind in Kind if kind not in (Kind.CONFLICT, Kind.EXPIRED, Kind.CUT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """All that a driver asks of anybody passes here.

    proxies: by the name of the server behind. environment: what the driver's process is told beside its own.
    """

    traffic: Traffic
    proxies: Mapping[str, Faulty]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Where it leads to: a namespace of a cluster, as one service account, and a fake of Cloud Storage."""

    cluster: Cluster
    namespace: str
    account: str
    gcs: Gcs


@contextmanager
def way(ends: Ends, folder: Path, faults: Mapping[str, Faults]) -> Iterator[Way]:
    """faults: by the name of the server that they stand before; without any, everything passes as it is."""
    traffic, plane = Traffic(), ends.cluster.plane
    serving = plane.site.serving
    tls = Tls(authority=plane.site.authority.path, certificate=serving.certificate, key=serving.key)
    none = Faults(seed=0, rate=0.0)
    with ExitStack() as running:
        cluster = running.enter_context(
            Faulty(plane.server.url, traffic, faults.get(CLUSTER, none), name=CLUSTER, says=kubernetes_says, tls=tls)
        )
        bucket = running.enter_context(
            Faulty(ends.gcs.url, traffic, faults.get(BUCKET, none), name=BUCKET, says=google_says)
        )
        token = users.token_of(plane.api, ends.namespace, ends.account)
        server = users.Server(url=cluster.url, authority=plane.site.authority.path)
        kubeconfig = users.write_kubeconfig(folder / "driver.kubeconfig", server, token, ends.namespace)
        own = {name: value.replace(ends.gcs.url, bucket.url) for name, value in ends.gcs.environment.items()}
        environment = {**own, "KUBECONFIG": str(kubeconfig)}
        yield Way(traffic=traffic, proxies={CLUSTER: cluster, BUCKET: bucket}, environment=environment)
