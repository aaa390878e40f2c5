"""Images of Google's two programs of Pathways, which a program of the tests plays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cluster import Cluster

PLAYER = Path(__file__).resolve().parent / "pathways" / "player.py"
SERVER, PROXY = "us-docker.pkg.dev/tests/pathways/server:1", "us-docker.pkg.dev/tests/pathways/proxy_server:1"
IMAGES = {"server_image": SERVER, "proxy_image": PROXY}


def add_pathways(cluster: Cluster, python: str) -> None:
    """Nodes can pull both. python: the image whose interpreter plays them; the standard library is enough."""
    images = cluster.kubelet.images
    image = images.pull(python, "IfNotPresent")
    for name, words in ((SERVER, "server"), (PROXY, "proxy")):
        entrypoint = ("python", str(PLAYER), words)
        images.add(name, replace(image, folders=(*image.folders, PLAYER.parent), entrypoint=entrypoint))
