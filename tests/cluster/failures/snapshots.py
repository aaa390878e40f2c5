"""What was known of an attempt at the moment of its verdict? The recorder's changes → a recording without noise."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from cluster import CLONE
from control_plane import Object
from ours import FIRST, Driven
from recorded import Recording
from recorder import Change
from stage import CASE_LABEL, Stage

from prefect_tpu.infra.backends.jobset_reading import holder_of

HOSTS = 2
LAG_SECONDS = 0.5
FOREGROUND = "foregroundDeletion"  # our way to delete a JobSet
METADATA = (
    *("name", "namespace", "uid", "labels", "annotations", "ownerReferences"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
)
SPECS: Mapping[str, tuple[str, ...]] = {
    "jobset": ("suspend",),
    "job": ("suspend", "backoffLimit"),
    "pod": ("nodeName", "nodeSelector"),
    "node": ("taints", "unschedulable"),
    "workload": ("queueName", "active", "priority"),
}
EVENT = ("involvedObject", "reason", "message", "type", "lastTimestamp", "eventTime", "count")
NO_STATUS = frozenset({"hostIP", "hostIPs", "podIP", "podIPs", "qosClass", "resources", "observedGeneration"})
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def snapshot(stage: Stage, driven: Driven) -> Recording:
    """Of the first attempt, when the launcher had its verdict."""
    closing = next(closing for closing in driven.closings if closing.attempt == 1)
    heard = _before(stage, closing.at)
    lasting = [[kind, about, round(seconds, 2)] for (kind, about), seconds in closing.lasting.items()]
    content = _clean(
        {
            "job": json.loads(driven.job.to_json()),
            "hosts": HOSTS,
            "was_told_to_stop": 1 in driven.stops,
            "outputs": closing.outputs,
            "taken": _taken(stage, closing.at),
            "lasting": lasting,
            **_state(heard),
        },
        stage,
    )
    return Recording(**content)


def _before(stage: Stage, verdict: float) -> list[Change]:
    """What was said before the launcher ended what was left; the recorder may have heard it a little later."""
    about = [change for change in stage.recorder.changes(until=verdict + LAG_SECONDS) if _is_about(stage, change)]
    ended = min((change.version for change in about if _is_our_deletion(change)), default=None)
    return [change for change in about if ended is None or change.version < ended]


def _is_our_deletion(change: Change) -> bool:
    return change.kind == "jobset" and FOREGROUND in change.body["metadata"].get("finalizers", ())


def _state(heard: Iterable[Change]) -> Object:
    """The newest state of each object, and of pods and nodes also the last one of what is gone."""
    newest = {(change.kind, change.uid): change for change in heard}
    objects: dict[str, list[Object]] = {}
    gone = []
    for change in newest.values():
        if not change.is_gone:
            objects.setdefault(change.kind, []).append(_small(change.kind, change.body))
        elif change.kind == "pod":
            gone.append(_small("pod", change.body))
        elif change.kind == "node":
            objects.setdefault("lost node", []).append(_small("node", change.body))
    return {"objects": objects, "gone": gone}


def _taken(stage: Stage, verdict: float) -> dict[str, str]:
    """Whose pods are on the case's nodes."""
    pods = {change.uid: change for change in stage.recorder.changes(until=verdict) if change.kind == "pod"}
    others = [change.body for change in pods.values() if not change.is_gone and not change.name.startswith(FIRST)]
    held = {str(pod["spec"].get("nodeName")): holder_of(pod) for pod in others}
    return {node: who for node, who in held.items() if node in stage.nodes and who}


def _is_about(stage: Stage, change: Change) -> bool:
    if change.kind == "node":
        return change.body["metadata"].get("labels", {}).get(CASE_LABEL) == stage.name
    if change.namespace != stage.name:
        return False
    if change.kind == "event":
        return str(change.body["involvedObject"].get("name", "")).startswith(FIRST)
    if change.kind == "workload":
        return FIRST in change.name
    return change.name == FIRST or change.name.startswith(f"{FIRST}-")


def _small(kind: str, body: Object) -> Object:
    """Only what anybody reads."""
    metadata = {key: body["metadata"][key] for key in METADATA if key in body["metadata"]}
    metadata["annotations"] = {
        key: value for key, value in metadata.get("annotations", {}).items() if key.startswith("prefect-tpu/told")
    }
    if kind == "event":
        return {"metadata": metadata, **{key: body[key] for key in EVENT if body.get(key)}}
    spec = {key: body["spec"][key] for key in SPECS[kind] if key in body.get("spec", {})}
    status = body.get("status", {})
    kept = {key: value for key, value in status.items() if key not in NO_STATUS}
    if kind == "node":
        kept = {"conditions": [one for one in status.get("conditions", ()) if one["type"] == "Ready"]}
    return {"metadata": metadata, "spec": spec, "status": kept}


def _clean(content: Object, stage: Stage) -> Object:
    """Without what differs from run to run: uids, made-up ends of names, times, folders of this machine."""
    text = json.dumps(content).replace(str(stage.folder), "/shared").replace(str(CLONE), "/clone")
    for number, uid in enumerate(dict.fromkeys(_UID.findall(text))):
        text = text.replace(uid, f"uid-{number}")
    text = _without_made_up_names(text)
    stamps = [_read(match) for match in _STAMP.finditer(text)]
    first = min(stamps, default=_BEGIN)
    text = _STAMP.sub(lambda match: _written(_BEGIN + (_read(match) - first)), text)
    found: Object = json.loads(text)
    return found


def in_any_run(text: str) -> str:
    """Without the ids that a run makes up."""
    return re.sub(rf"{_UID.pattern}|\buid-\d+", "uid", _without_made_up_names(text))


def _without_made_up_names(text: str) -> str:
    """Of pods."""
    return re.sub(rf"({FIRST}-s-\d+-\d+)-[a-z0-9]{{5}}\b", r"\1-xxxxx", text)


def _read(match: re.Match[str]) -> datetime:
    return datetime.fromisoformat(match[0])


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
