"""Which labels and taints does Google not take for the nodes and the machines of a pool?"""

from __future__ import annotations

import re

from google.cloud.container_v1 import NodeConfig, NodeTaint

_RESOURCE_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_RESOURCE_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_NODE_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NODE_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_EFFECTS = (NodeTaint.Effect.NO_SCHEDULE, NodeTaint.Effect.PREFER_NO_SCHEDULE, NodeTaint.Effect.NO_EXECUTE)


def wrong_label(config: NodeConfig) -> str | None:
    for key, value in config.resource_labels.items():
        if not _RESOURCE_KEY.fullmatch(key) or not _RESOURCE_VALUE.fullmatch(value):
            return f'Invalid value for field "node_pool.config.resource_labels": label "{key}={value}" is not valid.'
    for key, value in config.labels.items():
        if not _NODE_KEY.fullmatch(key) or not _NODE_VALUE.fullmatch(value):
            return f'Invalid value for field "node_pool.config.labels": label "{key}={value}" is not valid.'
    return None


def wrong_taint(config: NodeConfig) -> str | None:
    """Each says how it acts, and none is there twice, as Kubernetes has it."""
    seen: set[tuple[str, int]] = set()
    for one in config.taints:
        if not _NODE_KEY.fullmatch(one.key) or not _NODE_VALUE.fullmatch(one.value):
            return f'Invalid value for field "node_pool.config.taints": taint "{one.key}={one.value}" is not valid.'
        if one.effect not in _EFFECTS:
            return f'Invalid value for field "node_pool.config.taints": taint "{one.key}" has no valid effect.'
        if (one.key, one.effect) in seen:
            return f'Invalid value for field "node_pool.config.taints": taint "{one.key}" is there twice.'
        seen.add((one.key, one.effect))
    return None
