"""The whole mission: a flow on a real Prefect server trains on slices of a real control plane."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from gcs import Gcs

HERE = Path(__file__).parent
# Tests are no package; these modules are for this folder.
sys.path += [str(HERE), str(HERE.parent / "chaos"), str(HERE.parents[1] / "prefect")]

from world import World, world  # noqa: E402


@pytest.fixture(scope="module")  # folders of tests are no packages: it would last as long as the session
def here(cluster: Cluster, gcs: Gcs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch, world(cluster, gcs, tmp_path_factory.mktemp("world")) as made:
        for name, value in gcs.environment.items():
            patch.setenv(name, value)  # this process looks into the bucket
        yield made
        assert not made.google.errors, made.google.errors
