"""Who lives at the same time? Every change of JobSets and pods of a namespace, in the order in which they came."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

from background import InBackground
from control_plane import Api, ApiError, Object
from objects import JOBSETS

JOB, ATTEMPT = "prefect-tpu/job", "prefect-tpu/attempt"
WATCH_SECONDS = 2  # then the end is looked for, and the watch goes on from where it was
EXPIRED = 410
Alive = Callable[[Object], bool]


def is_live_jobset(jobset: Object) -> bool:
    """Not ended, and not deleted."""
    meta, status = jobset["metadata"], jobset.get("status", {})
    return not status.get("terminalState") and "deletionTimestamp" not in meta


def is_live_pod(pod: Object) -> bool:
    """On a node, and not over: its processes may run."""
    return pod.get("status", {}).get("phase") == "Running"


class Witness(InBackground):
    """Watches for as long as it is entered.

    overlaps: what must not be, in words. made: job → the JobSets that there were.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        watched = {
            f"{JOBSETS}/namespaces/{namespace}/jobsets": is_live_jobset,
            f"/api/v1/namespaces/{namespace}/pods": is_live_pod,
        }
        super().__init__(*(partial(self._watch, *one) for one in watched.items()))
        self._api = api
        self.overlaps: list[str] = []
        self.made: dict[str, set[str]] = defaultdict(set)

    def _watch(self, path: str, is_alive: Alive) -> None:
        alive: dict[str, tuple[str, str]] = {}  # uid → job, attempt
        for kind, found in self._changes(path):
            meta, labels = found["metadata"], found["metadata"].get("labels", {})
            if JOB not in labels:
                continue
            if path.endswith("/jobsets"):
                self.made[labels[JOB]].add(meta["name"])
            alive.pop(meta["uid"], None)
            if kind != "DELETED" and is_alive(found):
                alive[meta["uid"]] = labels[JOB], labels[ATTEMPT]
            attempts = {attempt for job, attempt in alive.values() if job == labels[JOB]}
            if len(attempts) > 1:
                what = f"{path.rpartition('/')[2]} of attempts {sorted(attempts)} of {labels[JOB]} live at once"
                self.overlaps.append(f"{what}, at {meta['name']} {kind} {meta['resourceVersion']}")

    def _changes(self, path: str) -> Iterator[tuple[str, Object]]:
        """Those of the namespace. Where it was quiet for so long that its last version is forgotten, as it is now."""
        known: dict[str, Object] = {}
        while not self.is_over.is_set():
            listed = self._api.get(path)
            found = {one["metadata"]["uid"]: one for one in listed["items"]}
            yield from (("DELETED", known[uid]) for uid in known.keys() - found.keys())
            yield from (("MODIFIED", one) for one in found.values())
            known = found
            for kind, one in self._events(path, listed["metadata"]["resourceVersion"]):
                known[one["metadata"]["uid"]] = one
                if kind == "DELETED":
                    del known[one["metadata"]["uid"]]
                yield kind, one

    def _events(self, path: str, version: str) -> Iterator[tuple[str, Object]]:
        """After a version, until the end or until it is too old to be gone on from."""
        while not self.is_over.is_set():
            for event in self._api.watch(path, version, WATCH_SECONDS):
                if event["type"] == "ERROR":
                    assert event["object"]["code"] == EXPIRED, event
                    return
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    yield event["type"], event["object"]


def left_of(api: Api, namespace: str) -> list[str]:
    """What of ours is still in a namespace."""
    kinds = {
        "JobSet": f"{JOBSETS}/namespaces/{namespace}/jobsets",
        "Job": f"/apis/batch/v1/namespaces/{namespace}/jobs",
        "pod": f"/api/v1/namespaces/{namespace}/pods",
        "ConfigMap": f"/api/v1/namespaces/{namespace}/configmaps",
        "Secret": f"/api/v1/namespaces/{namespace}/secrets",
        "Workload": f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads",
    }
    return [f"{kind} {name}" for kind, path in kinds.items() for name in _names(api, path)]


def _names(api: Api, path: str) -> list[str]:
    try:
        found = api.get(path)["items"]
    except ApiError as error:
        if error.status == 404:  # no such type, where Kueue is not there
            return []
        raise
    return [one["metadata"]["name"] for one in found if one["metadata"]["name"] != "kube-root-ca.crt"]
