"""Pods and JobSets as these tests make them, and what they read of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from control_plane import Api, Object

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2"
TPU_TOLERATION = {"key": "google.com/tpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}


def pod(name: str, *command: str, image: str = "system", container: Object | None = None, **spec: Any) -> Object:
    """A pod of one container, `main`, that is not restarted."""
    main = {"name": "main", "image": image, "command": list(command), **(container or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [main], "terminationGracePeriodSeconds": 5, **spec},
    }


def jobset(name: str, pool: str, hosts: int, *command: str, chips: int = 4) -> Object:
    """One slice of a pool, placed as a whole; Kubernetes does not restart it."""
    chip = {"google.com/tpu": str(chips)}
    container = {
        "name": "main",
        "image": "pod-python",
        "command": list(command),
        "resources": {"requests": chip, "limits": chip},
    }
    template = {
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "nodeSelector": {"cloud.google.com/gke-nodepool": pool},
            "tolerations": [TPU_TOLERATION],
            "containers": [container],
        }
    }
    job = {"parallelism": hosts, "completions": hosts, "completionMode": "Indexed", "backoffLimit": 0}
    exclusive = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": exclusive},
        "spec": {
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [{"name": "slice", "template": {"spec": {**job, "template": template}}}],
        },
    }


def failed_scale_up(pod: Object, message: str) -> Object:
    """An event, as Google's autoscaler says it of a pod that no node takes."""
    metadata = pod["metadata"]
    now = metadata["creationTimestamp"]
    about = {"kind": "Pod", "apiVersion": "v1", **{key: metadata[key] for key in ("name", "namespace", "uid")}}
    return {
        "metadata": {"name": f"{metadata['name']}.scaling", "namespace": metadata["namespace"]},
        "involvedObject": about,
        "type": "Warning",
        "reason": "FailedScaleUp",
        "message": message,
        "source": {"component": "cluster-autoscaler"},
        "firstTimestamp": now,
        "lastTimestamp": now,
    }


class Namespace:
    """The pods and JobSets of one namespace.

    since: the version from which a watch sees all that happened in it.
    """

    def __init__(self, api: Api, name: str) -> None:
        self.api, self.name = api, name
        self.pods = f"/api/v1/namespaces/{name}/pods"
        self.since = str(api.get(self.pods)["metadata"]["resourceVersion"])

    def make(self, *pods: Object) -> None:
        """Create pods, or objects of other kinds by `api`."""
        for one in pods:
            self.api.post(self.pods, one)

    def keep(self, kind: str, name: str, data: dict[str, str]) -> None:
        """A ConfigMap or Secret of texts."""
        plural, key = {"ConfigMap": ("configmaps", "data"), "Secret": ("secrets", "stringData")}[kind]
        body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, key: data}
        self.api.post(f"/api/v1/namespaces/{self.name}/{plural}", body)

    def start(self, jobset: Object) -> None:
        """Create a JobSet."""
        self.api.post(f"{JOBSETS}/namespaces/{self.name}/jobsets", jobset)

    def pod(self, name: str) -> Object:
        return self.api.get(f"{self.pods}/{name}")

    def of(self, jobset: str) -> list[Object]:
        """The pods of a JobSet."""
        found = self.api.get(self.pods, labelSelector=f"jobset.sigs.k8s.io/jobset-name={jobset}")["items"]
        assert isinstance(found, list)
        return found

    def phase(self, name: str) -> str:
        return str(self.pod(name)["status"].get("phase"))

    def is_over(self, name: str) -> bool:
        return self.phase(name) in ("Succeeded", "Failed")

    def state(self, name: str) -> Object:
        """Of a pod's one container: `{"waiting": …}`, `{"running": …}`, `{"terminated": …}`; empty before."""
        statuses = self.pod(name)["status"].get("containerStatuses") or [{"state": {}}]
        found = statuses[0]["state"]
        assert isinstance(found, dict)
        return found

    def end(self, name: str) -> Object:
        """How a pod's one container ended; empty while it has not."""
        found = self.state(name).get("terminated", {})
        assert isinstance(found, dict)
        return found

    def changes(self, name: str, seconds: int = 30) -> Iterator[Object]:
        """A pod as it was at each change since the beginning, up to its deletion.

        What a pod that is deleted said last is seen by watchers alone.
        """
        for event in self.api.watch(self.pods, self.since, seconds):
            if event["type"] != "BOOKMARK" and event["object"]["metadata"]["name"] == name:
                yield event["object"]
                if event["type"] == "DELETED":
                    return

    def log(self, name: str, **how: Any) -> str:
        return self.api.text(f"{self.pods}/{name}/log", **how)

    def condition(self, name: str, kind: str) -> Object | None:
        """One condition of a pod."""
        conditions = self.pod(name)["status"].get("conditions", [])
        return next((one for one in conditions if one["type"] == kind), None)

    def events(self, name: str) -> list[str]:
        """Reason and message of what was said about an object."""
        found = self.api.get(f"/api/v1/namespaces/{self.name}/events", fieldSelector=f"involvedObject.name={name}")
        return [f"{one['reason']}: {one['message']}" for one in found["items"]]
