"""Saved configuration: Prefect blocks that turn into plain `infra` objects.

Prefect loads this module as a collection (`pyproject.toml`, `prefect.collections`);
whatever block is imported here shows up in its UI. There is none yet: the local
backend needs no configuration.
"""
