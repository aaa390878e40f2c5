"""The page on GKE does what it says, on this control plane, with the rights that its own manifests give."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from administered import administered, write_kubeconfig
from cluster import Cluster
from gcs import Gcs

sys.path.append(str(Path(__file__).parents[1] / "docs"))  # tests are no package

from page_blocks import blocks  # noqa: E402
from reader import ROOT, Reader  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

PAGE = ROOT / "docs/how-to/gke.md"


@pytest.fixture
def prepared(cluster: Cluster, gcs: Gcs, bucket: str, fresh_pool: Callable[[str], list[str]]) -> Iterator[Cluster]:
    """What the page's first section makes."""
    fresh_pool("v6e-16")
    with administered(cluster, gcs):
        yield cluster


def test_a_newcomer_who_follows_the_page(prepared: Cluster, gcs: Gcs, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        reader.environment |= gcs.environment
        reader.environment["KUBECONFIG"] = str(write_kubeconfig(prepared, reader.home / ".kube/config"))
        for block in blocks(PAGE):
            went_wrong = reader.follow(block)
            assert not went_wrong, f"{PAGE.name}:{block.line} {went_wrong}"
        reader.close()
        assert not reader.left()
