"""On which nodes may pods be placed, as each of them is now? Told once for all attempts whose pods are alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from prefect_tpu.infra.backends.jobset_facts import NodeFacts
from prefect_tpu.infra.backends.jobset_reading import node_labels, read_nodes
from prefect_tpu.infra.gcp.collection import Collection

Object = dict[str, Any]


class NodeReader(Protocol):
    """Who hears of nodes. Called in the event loop, so it must be quick."""

    def nodes_known(self) -> None: ...

    def node_changed(self, name: str) -> None: ...

    def node_went(self, last: NodeFacts) -> None: ...

    def nodes_broke(self, error: Exception) -> None: ...


class NodeGroup:
    """The nodes for the pods of one replicated job of a JobSet, and of all that are like it.

    facts: by name; of those that are there.
    """

    def __init__(self, jobset: Object, job: str) -> None:
        self.facts: dict[str, NodeFacts] = {}
        self.readers: list[NodeReader] = []
        self._jobset, self._job = jobset, job
        selector = node_labels(jobset, job)
        self._wanted = dict(part.split("=", 1) for part in selector.split(",") if part)
        self._is_known = False
        self._error: Exception | None = None

    def join(self, reader: NodeReader) -> None:
        """Tell it of changes from now on; what there is stands in `facts`."""
        self.readers.append(reader)
        if self._error is not None:
            reader.nodes_broke(self._error)
        elif self._is_known:
            reader.nodes_known()

    # As a reader of all nodes

    def known(self) -> None:
        self._is_known = True
        for reader in self.readers:
            reader.nodes_known()

    def came(self, found: Object) -> None:
        name, now = found["metadata"]["name"], self._read(found)
        before = self.facts.get(name)
        if now is None:
            self._lose(name)
        elif now != before:  # most of what a node says anew is that it is there
            self.facts[name] = now
            for reader in self.readers:
                reader.node_changed(name)

    def went(self, found: Object) -> None:
        self._lose(found["metadata"]["name"])

    def broke(self, error: Exception) -> None:
        self._error = error
        for reader in self.readers:
            reader.nodes_broke(error)

    def _lose(self, name: str) -> None:
        if (last := self.facts.pop(name, None)) is not None:
            for reader in self.readers:
                reader.node_went(last)

    def _read(self, found: Object) -> NodeFacts | None:
        """None of one that is not for such pods."""
        labels = found["metadata"].get("labels") or {}
        if not self._wanted.items() <= labels.items():
            return None
        return read_nodes([found], self._jobset, self._job).get(found["metadata"]["name"])


class NodeGroups:
    """All groups that somebody asks for, out of one collection of nodes."""

    def __init__(self, nodes: Collection) -> None:
        self._nodes = nodes
        self._groups: dict[str, NodeGroup] = {}

    def join(self, reader: NodeReader, jobset: Object, job: str) -> Mapping[str, NodeFacts]:
        """The nodes for the pods of a replicated job, kept up to date; a reader hears when."""
        kind = _kind(jobset, job)
        if (group := self._groups.get(kind)) is None:
            group = self._groups[kind] = NodeGroup(jobset, job)
            self._nodes.join(group)
        group.join(reader)
        return group.facts

    def leave(self, reader: NodeReader) -> None:
        """Tell it nothing more."""
        for kind, group in list(self._groups.items()):
            group.readers = [one for one in group.readers if one is not reader]
            if not group.readers:
                del self._groups[kind]
                self._nodes.leave(group)


def _kind(jobset: Object, job: str) -> str:
    """Equal for pods that may be on the same nodes."""
    replicated = jobset["spec"]["replicatedJobs"]
    chosen = next((one for one in replicated if one["name"] == job), replicated[0])
    return json.dumps(chosen["template"]["spec"]["template"]["spec"], sort_keys=True)
