"""What do watches tell of one attempt? What is there of it now, what was, and whether anything changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.backends.jobset_facts import EventFacts, Facts, JobFacts, NodeFacts, OutputFacts, WorkloadFacts
from prefect_tpu.infra.backends.jobset_helpers import apart
from prefect_tpu.infra.backends.jobset_nodes import NodeGroups
from prefect_tpu.infra.backends.jobset_plan import Target
from prefect_tpu.infra.backends.jobset_pods import PodMemory
from prefect_tpu.infra.backends.jobset_reading import (
    is_workload_of,
    node_labels,
    read_event,
    read_job,
    read_jobset,
    read_workload,
)
from prefect_tpu.infra.backends.jobset_sources import Sources, tell_missing
from prefect_tpu.infra.gcp.collection import Collection

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ear:
    """One type of object, heard for an attempt: what each thing that is told of it does there."""

    came: Callable[[Object], None]
    went: Callable[[Object], None]
    known: Callable[[], None]
    broke: Callable[[Exception], None]


class AttemptMemory:
    """One attempt, as watches tell of it.

    jobset: what is remembered of its JobSet; None where it is not there.
    is_known: all that is there was told once. has_jobset: it is there. knows_nodes: its nodes too were told once.
    changed: since this was cleared. stirred: that too, or something that may mean something for it, as for others.
    waits_for_node: something of it does. broken: done with an error once nothing is told any more.
    """

    def __init__(self, target: Target) -> None:
        self.jobset: Object | None = None
        self.pods = PodMemory(target.hosts_per_slice, target.helpers)
        self.is_known, self.has_jobset, self.knows_nodes = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.changed, self.stirred, self.waits_for_node = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._target = target
        self._was_there = False
        self._jobs: dict[str, JobFacts] = {}
        self._events: dict[str, tuple[str, EventFacts]] = {}
        self._nodes: dict[str, Mapping[str, NodeFacts]] = {}  # of each replicated job, "" that of hosts
        self._lost: dict[str, NodeFacts] = {}
        self._groups: list[NodeGroups] = []
        self._taken: Mapping[str, str] = {}
        self._workloads: Collection | None = None
        self._is_queued = False
        self._was_followed = False  # its JobSet has said once what else is to be heard
        self._sources: Sources | None = None
        self._untold = 4  # of the types that are heard, how many were not listed yet
        self._ungrouped = 0
        self._ears = (
            Ear(came=self._jobset_came, went=self._jobset_went, known=self._told, broke=self._broke),
            Ear(came=self._job_came, went=self._job_went, known=self._told, broke=self._broke),
            Ear(came=self._pod_came, went=self._pod_went, known=self._told, broke=self._broke),
            Ear(came=self._event_came, went=self._event_went, known=self._told, broke=self._broke),
        )
        self._queue = Ear(
            came=self._workload_changed, went=self._workload_changed, known=self.note_change, broke=self._lacks
        )

    def join(self, sources: Sources) -> None:
        """Hear of the attempt from now on."""
        self._sources = sources
        for source, key, ear in self._heard(sources):
            source.join(ear, key)

    def leave(self, sources: Sources) -> None:
        """Hear of it no more."""
        for source, key, ear in self._heard(sources):
            source.leave(ear, key)
        for groups in self._groups:
            groups.leave(self)
        if self._workloads is not None:
            self._workloads.leave(self._queue)
        if self.broken.done():
            self.broken.exception()  # else it is told of as one that nobody heard
        self.broken.cancel()

    def _heard(self, sources: Sources) -> Iterable[tuple[Collection, str, Ear]]:
        own = self._target.selector
        keys = (own, own, own, self._target.name)
        return zip((sources.jobsets, sources.jobs, sources.pods, sources.events), keys, self._ears, strict=True)

    def facts(self, outputs: Mapping[int, OutputFacts]) -> Facts:
        """Everything that is known of it now."""
        helpers = self._target.helpers
        found = Facts(
            attempt=self._target.attempt,
            slices=self._target.slices,
            hosts=self._target.hosts,
            jobset=read_jobset(self.jobset) if self.jobset else None,
            was_there=self._was_there,
            jobs=tuple(sorted(self._jobs.values(), key=lambda job: job.name)),
            pods=self.pods.facts,
            nodes=self._known_nodes(""),
            taken=self._taken,
            events=tuple(facts for _, facts in sorted(self._events.values(), key=lambda one: one[0])),
            workload=self._workload(),
            outputs=outputs,
        )
        return apart(found, helpers, self._known_nodes(helpers.job) if helpers else {})

    def note_change(self) -> None:
        """Something is not what it was."""
        self.changed.set()
        self.stirred.set()

    def note_holders(self, holders: Iterable[tuple[str, str, str]]) -> None:
        """Who is on which node: whatever is on ours and is not of this attempt keeps it away."""
        ours = {node for group in self._nodes.values() for node in group}
        taken = {node: who for node, uid, who in holders if node in ours and not self.pods.has(uid)}
        if taken != self._taken:
            self._taken = taken
            self.note_change()

    def _told(self) -> None:
        self._untold -= 1
        if self._untold == 0:
            self.is_known.set()
            self.note_change()

    def _broke(self, error: Exception) -> None:
        if not self.broken.done():
            self.broken.set_exception(error)

    # Its own objects

    def _jobset_came(self, found: Object) -> None:
        is_first = not self._was_followed
        self.jobset, self._was_there, self._was_followed = found, True, True
        if is_first and self._sources is not None:
            self._follow_more(self._sources, found)
        self.has_jobset.set()
        self.note_change()

    def _jobset_went(self, found: Object) -> None:
        self._was_there = True
        if self.jobset is None or self.jobset["metadata"]["uid"] == found["metadata"]["uid"]:
            self.jobset = None
        self.note_change()

    def _job_came(self, found: Object) -> None:
        self._jobs[found["metadata"]["uid"]] = read_job(found, self._target.helpers)
        self.note_change()

    def _job_went(self, found: Object) -> None:
        self._jobs.pop(found["metadata"]["uid"], None)
        self.note_change()

    def _pod_came(self, found: Object) -> None:
        self.pods.came(found)
        self._note_pods()

    def _pod_went(self, found: Object) -> None:
        self.pods.went(found)
        self._note_pods()

    def _note_pods(self) -> None:
        self._was_there = True
        if self.pods.is_waiting_for_node:
            self.waits_for_node.set()
        else:
            self.waits_for_node.clear()
        self.note_change()

    def _event_came(self, found: Object) -> None:
        self._events[found["metadata"]["uid"]] = found["metadata"]["name"], read_event(found)
        self.note_change()

    def _event_went(self, found: Object) -> None:
        """Kubernetes forgets it after an hour; what it said stays said."""
        if self._events.pop(found["metadata"]["uid"], None) is not None:
            self.stirred.set()

    # What is known only once its JobSet is: which nodes may be its, and whose queue it stands in

    def _follow_more(self, sources: Sources, jobset: Object) -> None:
        helpers = self._target.helpers
        jobs = ("", *([helpers.job] if helpers else []))
        self._ungrouped = len(jobs)
        for job in jobs:
            self._groups.append(groups := sources.nodes(node_labels(jobset, job)))
            self._nodes[job] = groups.join(self, jobset, job)
        if read_jobset(jobset).queue is not None:
            self._workloads = sources.workloads()
            self._workloads.join(self._queue)

    def nodes_known(self) -> None:
        self._ungrouped -= 1
        if self._ungrouped <= 0:
            self.knows_nodes.set()
            self.note_change()

    def node_changed(self, name: str) -> None:
        self._lost.pop(name, None)
        self._note_node(name)

    def node_went(self, last: NodeFacts) -> None:
        """What was known of a node that has pods of it still tells why they are lost."""
        if self.pods.is_on(last.name):
            self._lost[last.name] = last.lost()
        self._note_node(last.name)

    def nodes_broke(self, error: Exception) -> None:
        self._lacks(error)

    def _note_node(self, name: str) -> None:
        if self.pods.is_on(name):
            self.note_change()
        elif self.pods.are_placed < self._all_pods:
            self.stirred.set()

    def _lacks(self, error: Exception) -> None:
        """Without this permission, or this type, less is known; nothing else fails."""
        if tell_missing(error):
            self.knows_nodes.set()
        else:
            self._broke(error)

    @property
    def _all_pods(self) -> int:
        return self._target.hosts + (self._target.helpers.pods if self._target.helpers else 0)

    def _known_nodes(self, job: str) -> Mapping[str, NodeFacts]:
        there = self._nodes.get(job, {})
        return {**self._lost, **there} if self._lost else there

    def _workload_changed(self, found: Object) -> None:
        if self.jobset is not None and is_workload_of(found, self.jobset["metadata"]["uid"]):
            self.note_change()
        elif self._is_queued:
            self.stirred.set()

    def _workload(self) -> WorkloadFacts | None:
        if self._workloads is None or self.jobset is None:
            return None
        own = next(iter(self._workloads.of(self.jobset["metadata"]["uid"]).values()), None)
        found = read_workload(own, self._workloads.of().values()) if own else None
        self._is_queued = found is not None and found.position is not None
        return found
