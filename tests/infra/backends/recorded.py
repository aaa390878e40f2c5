"""What follows from what a cluster said? Recorded objects → the failure that the launcher would name. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefect_tpu.infra.backends import jobset_reading as reading
from prefect_tpu.infra.backends.jobset_facts import Facts, OutputFacts
from prefect_tpu.infra.backends.jobset_view import view
from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.errors import Failure
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher.actions import Close
from prefect_tpu.infra.launcher.step import step
from prefect_tpu.infra.launcher.view import Live, View
from prefect_tpu.infra.policy.offers import offers_of
from prefect_tpu.infra.scratch import HostProgress

FIXTURES = Path(__file__).parent / "fixtures" / "failures"
LONG = 1e6  # seconds: whatever was waited for has been waited for by then
Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What was known of an attempt when the launcher closed it.

    objects: kind → the objects of that kind that were there. gone: the pods that were there before.
    taken: node → whose pods are on it, where they are not this attempt's.
    outputs: host → what it had written into the job's folder, by the file's name.
    lasting: how long each symptom had lasted, as `[kind, about, seconds]`.
    """

    job: Object
    hosts: int
    was_told_to_stop: bool
    objects: Mapping[str, list[Object]]
    taken: Mapping[str, str]
    gone: list[Object]
    outputs: Mapping[str, Mapping[str, Any]]
    lasting: list[list[Any]] = field(default_factory=list)

    @property
    def parsed_job(self) -> SliceJob:
        return SliceJob.from_json(json.dumps(self.job))

    def facts(self) -> Facts:
        slices = int(self.job["slices"])
        of = self.objects
        jobset = next((reading.read_jobset(found) for found in of.get("jobset", ())), None)
        per_slice = self.hosts // slices
        pods = [reading.read_pod(found, per_slice) for found in of.get("pod", ())]
        pods += [reading.read_pod(found, per_slice, is_gone=True) for found in self.gone]
        outputs = {int(host): _output(files) for host, files in self.outputs.items()}
        on = {pod.node for pod in pods}
        nodes = {node.name: node for node in map(reading.read_node, of.get("node", ()))}
        lost = {found["metadata"]["name"]: reading.read_node(found).lost() for found in of.get("lost node", ())}
        return Facts(
            attempt=1,
            slices=slices,
            hosts=self.hosts,
            jobset=jobset,
            was_there=True,
            jobs=tuple(reading.read_job(found) for found in of.get("job", ())),
            pods=tuple(sorted(pods, key=lambda pod: (pod.created_at, pod.name))),
            nodes={**{name: node for name, node in lost.items() if name in on}, **nodes},
            taken=self.taken,
            events=tuple(reading.read_event(found) for found in of.get("event", ())),
            workload=next((reading.read_workload(found) for found in of.get("workload", ())), None),
            outputs={host: found for host, found in outputs.items() if found != OutputFacts()},
        )

    def failure(self) -> Failure | None:
        """As the launcher's step closes the attempt, given the time."""
        lasting = {(kind, about): float(seconds) for kind, about, seconds in self.lasting}
        seen = view(self.facts(), lasting)
        job = self.parsed_job
        live = Live(
            number=1,
            offer=offers_of(job)[0],
            observation=seen,
            failing_for=LONG if seen.has_failure else None,
            waiting_for=LONG if seen.waiting else None,
            stopping_for=LONG if self.was_told_to_stop else None,
        )
        action = step(
            View(job=job, offers=offers_of(job), last_number=1, live=live, is_stop_asked=self.was_told_to_stop)
        )
        assert isinstance(action, Close), f"the launcher would {action}"
        return action.failure


def read(path: Path) -> tuple[Recording | None, Object]:
    """One fixture: the recording, None where nothing was sent, and what was seen of the run that made it."""
    data = json.loads(path.read_text())
    return Recording(**data["recording"]) if data["recording"] else None, data["seen"]


def _output(files: Mapping[str, Any]) -> OutputFacts:
    record, progress = files.get("record"), files.get("progress")
    return OutputFacts(
        has_started="started" in files,
        progress=HostProgress.from_json(json.dumps(progress).encode() if progress is not None else None),
        record=HostRecord.from_json(json.dumps(record)) if record is not None else None,
    )
