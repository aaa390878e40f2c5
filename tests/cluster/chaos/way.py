"""The way of one driver to its servers: a proxy before each, and the environment that leads through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import tokens
from cluster import Cluster
from container import OVERRIDE, Google
from control_plane import users
from faults import NONE, Fault, Faults, Kind, Traffic, google_says, kubernetes_says
from faulty import Faulty, Tls
from gcs import Gcs

CLUSTER, BUCKET, POOLS = "cluster", "bucket", "pools"  # what the servers are called in what passed
# What Google's APIs do not do: they have no watches, and what Cloud Storage calls a conflict is no passing one.
KINDS = {
    CLUSTER: tuple(Kind),
    BUCKET: tuple(kind for kind in Kind if kind not in (Kind.CONFLICT, Kind.EXPIRED, Kind.CUT)),
    POOLS: tuple(kind for kind in Kind if kind not in (Kind.EXPIRED, Kind.CUT)),
}
PROJECT, REGION = "research", "us-east5"


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
    """Where it leads to: a namespace of a cluster, as one service account, and fakes of Google's APIs.

    google: of the Container API, which then knows the cluster by the namespace's name; None where nobody asks it.
    """

    cluster: Cluster
    namespace: str
    account: str
    gcs: Gcs
    google: Google | None = None

    @property
    def authority(self) -> Path:
        return self.cluster.plane.site.authority.path

    @property
    def token(self) -> str:
        """Of the account."""
        return users.token_of(self.cluster.api, self.namespace, self.account)


def resource_name(cluster: str) -> str:
    """As the Container API calls a cluster of this name."""
    return f"projects/{PROJECT}/locations/{REGION}/clusters/{cluster}"


@contextmanager
def way(ends: Ends, folder: Path, faults: Mapping[str, Faults]) -> Iterator[Way]:
    """faults: by the name of the server that they stand before; without any, everything passes as it is."""
    traffic, serving = Traffic(), ends.cluster.plane.site.serving
    tls = Tls(authority=ends.authority, certificate=serving.certificate, key=serving.key)
    with ExitStack() as running:

        def before(name: str, url: str, says: Callable[[Fault], bytes], tls: Tls | None = None) -> Faulty:
            proxy = Faulty(url, traffic, faults.get(name, NONE), name=name, says=says, tls=tls)
            return running.enter_context(proxy)

        cluster = before(CLUSTER, ends.cluster.plane.server.url, kubernetes_says, tls)
        bucket = before(BUCKET, ends.gcs.url, google_says)
        proxies = {CLUSTER: cluster, BUCKET: bucket}
        environment = {name: text.replace(ends.gcs.url, bucket.url) for name, text in ends.gcs.environment.items()}
        if ends.google is None:
            server = users.Server(url=cluster.url, authority=ends.authority)
            path = users.write_kubeconfig(folder / "driver.kubeconfig", server, ends.token, ends.namespace)
            environment["KUBECONFIG"] = str(path)
        else:
            proxies[POOLS] = before(POOLS, ends.google.url, google_says)
            given = running.enter_context(tokens.running(ends.token, folder))
            environment |= {**given.environment, OVERRIDE: proxies[POOLS].url}
            _tell_of_cluster(ends.google, ends, cluster)
        yield Way(traffic=traffic, proxies=proxies, environment=environment)


def _tell_of_cluster(google: Google, ends: Ends, proxy: Faulty) -> None:
    """Its API server is where the proxy is."""
    address, authority = proxy.url.removeprefix("https://"), ends.authority.read_bytes()
    google.add_cluster(resource_name(ends.namespace), endpoint=address, authority=authority)
