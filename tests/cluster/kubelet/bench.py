"""What all pods of a kubelet share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from control_plane import Api, ApiError, Object

from kubelet.addresses import Addresses
from kubelet.clock import precisely_now
from kubelet.images import Images
from kubelet.sandbox import Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Tools and places.

    server: the variables by which a container finds the API server.
    can_speak: whether a node reaches the API server.
    fail: where an error goes that nobody expects; it fails the test session.
    """

    api: Api
    images: Images
    sandbox: Sandbox
    addresses: Addresses
    folder: Path
    server: Mapping[str, str]
    can_speak: Callable[[str], bool]
    fail: Callable[[str], None]

    def record(self, pod: Object, reason: str, message: str, kind: str = "Warning") -> None:
        """An Event about a pod, as far as its namespace still takes any."""
        meta, stamp = pod["metadata"], precisely_now()
        about = {"kind": "Pod", "apiVersion": "v1", **{key: meta[key] for key in ("name", "namespace", "uid")}}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{meta['name']}."[:58]},
            "involvedObject": about,
            "reason": reason,
            "message": message[:1024],
            "type": kind,
            "source": {"component": "kubelet", "host": pod["spec"].get("nodeName", "")},
            "firstTimestamp": stamp[:19] + "Z",
            "lastTimestamp": stamp[:19] + "Z",
            "count": 1,
        }
        try:
            self.api.post(f"/api/v1/namespaces/{meta['namespace']}/events", event)
        except ApiError as error:
            if error.status not in (403, 404):
                raise
