"""What a pod's manifest points at: keys of ConfigMaps and Secrets, fields of the pod, resources of a container."""

from __future__ import annotations

import base64
import re
from typing import Any

from control_plane import Api, ApiError, Object

_MAPPED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class SourceMissing(Exception):
    """An object or a key that a pod needs is not there; the message is the kubelet's."""


class Sources:
    """Reads for one pod, in its namespace."""

    def __init__(self, api: Api, pod: Object, address: str) -> None:
        self._api, self._pod, self._address = api, pod, address
        self._namespace = pod["metadata"]["namespace"]

    def config_map(self, reference: Object) -> dict[str, bytes] | None:
        """All data of a ConfigMap, or None where it is missing and may be."""
        found = self._object("configmaps", "configmap", reference)
        if found is None:
            return None
        texts = {key: text.encode() for key, text in found.get("data", {}).items()}
        return texts | {key: base64.b64decode(text) for key, text in found.get("binaryData", {}).items()}

    def secret(self, reference: Object) -> dict[str, bytes] | None:
        """All data of a Secret, or None where it is missing and may be."""
        found = self._object("secrets", "secret", reference)
        if found is None:
            return None
        return {key: base64.b64decode(text) for key, text in found.get("data", {}).items()}

    def key(self, kind: str, reference: Object) -> str | None:
        """One key of a `ConfigMap` or `Secret`, or None where it is missing and may be."""
        data = self.config_map(reference) if kind == "ConfigMap" else self.secret(reference)
        found = (data or {}).get(reference["key"])
        if found is None and not reference.get("optional"):
            name = f"{self._namespace}/{reference['name']}"
            raise SourceMissing(f"couldn't find key {reference['key']} in {kind} {name}")
        return None if found is None else found.decode()

    def field(self, path: str) -> str:
        """A field of the pod, by the downward API."""
        spec = self._pod["spec"]
        known = {
            "status.podIP": self._address,
            "status.podIPs": self._address,
            "status.hostIP": "127.0.0.1",
            "status.hostIPs": "127.0.0.1",
            "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        }
        if path in known:
            return str(known[path])
        if found := _MAPPED.fullmatch(path):
            return str(self._pod["metadata"].get(found[1], {}).get(found[2], ""))
        value: Any = self._pod
        for part in path.split("."):
            value = value.get(part, {})
        if path in ("metadata.labels", "metadata.annotations"):
            return "\n".join(f'{key}="{text}"' for key, text in sorted((value or {}).items()))
        return str(value or "")

    def resource(self, reference: Object, container: Object) -> str:
        """A request or limit of a container, in units of the divisor."""
        named = reference.get("containerName")
        spec = next((one for one in self._pod["spec"]["containers"] if one["name"] == named), container)
        kind, _, resource = reference["resource"].partition(".")
        value = quantity(spec.get("resources", {}).get(kind, {}).get(resource, "0"))
        divisor = quantity(str(reference.get("divisor", "1"))) or 1
        return str(int(-(-value // divisor)))

    def _object(self, plural: str, kind: str, reference: Object) -> Object | None:
        try:
            return self._api.get(f"/api/v1/namespaces/{self._namespace}/{plural}/{reference['name']}")
        except ApiError as error:
            if error.status != 404:
                raise
            if reference.get("optional"):
                return None
            raise SourceMissing(f'{kind} "{reference["name"]}" not found') from error


def quantity(text: str) -> float:
    """The number that a quantity such as `512Mi`, `2` or `100m` stands for."""
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return float(text.removesuffix(suffix)) * factor
    return float(text.removesuffix("m")) / 1000 if text.endswith("m") else float(text)
