"""What did the API server say, and when? Everything of the cluster that tells of attempts, by one clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import urllib3
from control_plane import Api, ApiError, Object

PATHS = {
    "jobset": "/apis/jobset.x-k8s.io/v1alpha2/jobsets",
    "job": "/apis/batch/v1/jobs",
    "pod": "/api/v1/pods",
    "event": "/api/v1/events",
    "node": "/api/v1/nodes",
}
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta1/workloads"
RETRY_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One object as a watch told it. `at`: seconds of the monotonic clock. `is_gone`: this was its last state."""

    at: float
    kind: str
    body: Object
    is_gone: bool

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"].get("namespace", ""))

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def version(self) -> int:
        """Of everything that the API server knows, at this change: one counter for all kinds."""
        return int(self.body["metadata"]["resourceVersion"])

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])


class Recorder:
    """Watches a cluster in the background while it is entered; what it has seen can be asked for at any time."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._changes: list[Change] = []
        self._news = threading.Condition()
        self._is_stopping = False

    def __enter__(self) -> Recorder:
        for kind, path in PATHS.items():
            self._begin(kind, path)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping = True

    def watch_workloads(self) -> None:
        """Kueue's too, from now on: their type is known only where Kueue is."""
        self._begin("workload", WORKLOADS)

    def changes(self, since: float = 0.0, until: float = float("inf")) -> list[Change]:
        """In the order in which they were heard."""
        with self._news:
            return [change for change in self._changes if since <= change.at <= until]

    def wait_for(self, is_it: Callable[[Change], bool], since: float, seconds: float) -> Change | None:
        """The first such change after a moment; None where none came in so many seconds from now."""
        end, seen = time.monotonic() + seconds, 0
        with self._news:
            while True:
                news = self._changes[seen:]
                seen += len(news)
                found = next((change for change in news if change.at >= since and is_it(change)), None)
                if found is not None or time.monotonic() > end:
                    return found
                self._news.wait(max(0.0, end - time.monotonic()))

    def _begin(self, kind: str, path: str) -> None:
        threading.Thread(target=self._follow, args=(kind, path), name=f"record-{kind}", daemon=True).start()

    def _follow(self, kind: str, path: str) -> None:
        while not self._is_stopping:
            try:
                for change in self._told(kind, path):
                    with self._news:
                        self._changes.append(change)
                        self._news.notify_all()
                    if self._is_stopping:
                        return
            except (ApiError, OSError, urllib3.exceptions.HTTPError):
                if not self._is_stopping:
                    time.sleep(RETRY_SECONDS)

    def _told(self, kind: str, path: str) -> Iterator[Change]:
        listed = self._api.get(path)
        for body in listed["items"]:
            yield Change(at=time.monotonic(), kind=kind, body=body, is_gone=False)
        for event in self._api.watch(path, listed["metadata"]["resourceVersion"]):
            if event["type"] == "ERROR":
                return
            if event["type"] != "BOOKMARK":
                yield Change(at=time.monotonic(), kind=kind, body=event["object"], is_gone=event["type"] == "DELETED")
