"""Where pods are: a loopback address of each, and the names by which the pods of a JobSet find each other."""

from __future__ import annotations

import itertools
import os
import re
import threading

from control_plane import Api, ApiError, Object

JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
FIRST, MOST = 10, 200  # of the second numbers of loopback addresses
LOCAL = "127.0.0.1 localhost\n::1 localhost\n"


class Addresses:
    """One address per pod, kept by whatever has the same host name after it."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._numbers = itertools.count()
        self._own = os.getpid()  # other sessions of this machine have pods too, at the same ports
        self._of: dict[str, str] = {}
        self._lock = threading.Lock()

    def of(self, pod: Object) -> str:
        """A pod's own."""
        spec, meta = pod["spec"], pod["metadata"]
        if spec.get("hostname") and spec.get("subdomain"):
            return self.named(spec["hostname"], spec["subdomain"], meta["namespace"])
        return self._address(meta["uid"])

    def named(self, hostname: str, subdomain: str, namespace: str) -> str:
        """That of a host name of a headless service, whether such a pod is there or not."""
        return self._address(f"{hostname}.{subdomain}.{namespace}")

    def hosts_file(self, pod: Object) -> str:
        """/etc/hosts with the name of every pod of this pod's JobSet, as DNS has it before they are ready."""
        spec, namespace = pod["spec"], pod["metadata"]["namespace"]
        subdomain, own = spec.get("subdomain"), spec.get("hostname") or pod["metadata"]["name"]
        if not subdomain:
            return f"{LOCAL}{self.of(pod)} {own}\n"
        lines = [self._line(name, subdomain, namespace, own) for name in sorted({own} | self._siblings(pod))]
        return LOCAL + "".join(lines)

    def with_addresses(self, text: str, pod: Object) -> str:
        """A text in which such names are replaced, for containers without an /etc/hosts of their own."""
        subdomain, namespace = pod["spec"].get("subdomain"), pod["metadata"]["namespace"]
        if not subdomain:
            return text
        ending = rf"\.{re.escape(subdomain)}(\.{re.escape(namespace)}(\.svc(\.cluster\.local)?)?)?"
        return re.sub(rf"\b([a-z0-9-]+){ending}\b", lambda found: self.named(found[1], subdomain, namespace), text)

    def _line(self, name: str, subdomain: str, namespace: str, own: str) -> str:
        short = f"{name}.{subdomain}"
        names = [f"{short}.{namespace}.svc.cluster.local", f"{short}.{namespace}.svc", f"{short}.{namespace}", short]
        return " ".join([self.named(name, subdomain, namespace), *names, *([name] if name == own else [])]) + "\n"

    def _siblings(self, pod: Object) -> set[str]:
        namespace, jobset = pod["metadata"]["namespace"], pod["metadata"].get("labels", {}).get(JOBSET_LABEL)
        if not jobset:
            return set()
        try:
            found = self._api.get(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets/{jobset}")
        except ApiError as error:  # it may be gone before its pods are
            if error.status != 404:
                raise
            return set()
        return {
            f"{jobset}-{job['name']}-{replica}-{host}"
            for job in found["spec"]["replicatedJobs"]
            for replica in range(job.get("replicas", 1))
            for host in range(_hosts(job["template"]["spec"]))
        }

    def _address(self, key: str) -> str:
        with self._lock:
            if key not in self._of:
                number = next(self._numbers)
                second = FIRST + (self._own + number // 62500) % MOST
                self._of[key] = f"127.{second}.{number // 250 % 250}.{number % 250 + 2}"
            return self._of[key]


def _hosts(job: Object) -> int:
    return int(job.get("completions") or job.get("parallelism") or 1)
