"""Saved configuration: Prefect blocks that turn into plain `infra` objects.

Prefect loads this module as a collection (`pyproject.toml`, `prefect.collections`);
whatever block is imported here shows up in its UI.
"""

from prefect_tpu.blocks.gke_cluster import GKECluster

__all__ = ["GKECluster"]
