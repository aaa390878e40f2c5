"""What a kubelet does to the object of a pod: patch its status, and delete it once it is over."""

from __future__ import annotations

from control_plane import Api, ApiError, Object

GONE = (404, 409)  # deleted, or another pod of the same name by now


class Reporter:
    """For one pod, and for no other of its name."""

    def __init__(self, pod: Object, api: Api) -> None:
        meta = pod["metadata"]
        self.path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        self._uid, self._api = meta["uid"], api

    def post(self, status: Object) -> Object | None:
        """The whole status as it is then, or None where the pod is gone."""
        try:
            body = {"metadata": {"uid": self._uid}, "status": status}
            posted: Object = self._api.patch(f"{self.path}/status", body).get("status", {})
        except ApiError as error:
            if error.status not in GONE:
                raise
            return None
        return posted

    def delete(self) -> None:
        """It is over and somebody asked for its deletion."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        try:
            self._api.delete(self.path, {**options, "preconditions": {"uid": self._uid}})
        except ApiError as error:
            if error.status not in GONE:
                raise

    def is_unwanted(self) -> bool:
        """Whether the pod is on its way out: what it needs may be gone before it is."""
        try:
            is_going = "deletionTimestamp" in self._api.get(self.path)["metadata"]
        except ApiError as error:
            return error.status == 404
        if is_going:
            self.delete()
        return is_going
