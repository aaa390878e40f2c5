"""The environment of a container: what its image says, then the manifest; nothing of whoever runs the kubelet."""

from __future__ import annotations

import re
from collections.abc import Mapping

from control_plane import Object

from kubelet.images import Image
from kubelet.sources import Sources

HOME = "/home/pod"
_REFERENCE = re.compile(r"\$(\$|\(([-._a-zA-Z0-9]+)\))")


def environment(container: Object, image: Image, sources: Sources, server: Mapping[str, str]) -> dict[str, str]:
    """Every variable of a container, in the order in which Kubernetes lets later ones win.

    Args:
        container: From the manifest.
        image: What it runs.
        sources: Where ConfigMaps, Secrets and fields are read.
        server: By which a container finds the API server.

    Raises:
        SourceMissing: An object or key is not there.
    """
    found = {"PATH": image.search_path, "HOME": HOME, "LANG": "C.UTF-8", **image.environment, **server}
    for source in container.get("envFrom", []):
        data = sources.config_map(source["configMapRef"]) if "configMapRef" in source else None
        data = sources.secret(source["secretRef"]) if "secretRef" in source else data
        found.update({source.get("prefix", "") + key: value.decode() for key, value in (data or {}).items()})
    for item in container.get("env", []):
        value = _value(item, container, sources)
        if value is not None:
            found[item["name"]] = value if "valueFrom" in item else expand(value, found)
    return found


def expand(text: str, known: Mapping[str, str]) -> str:
    """$(NAME) as Kubernetes has it: unknown names stay, $$(NAME) escapes."""
    return _REFERENCE.sub(lambda found: "$" if found[1] == "$" else known.get(found[2], found[0]), text)


def _value(item: Object, container: Object, sources: Sources) -> str | None:
    source = item.get("valueFrom")
    if not source:
        return str(item.get("value", ""))
    if "fieldRef" in source:
        return sources.field(source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return sources.resource(source["resourceFieldRef"], container)
    if "configMapKeyRef" in source:
        return sources.key("ConfigMap", source["configMapKeyRef"])
    return sources.key("Secret", source["secretKeyRef"])
