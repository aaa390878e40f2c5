"""The volumes of a pod, as folders of this machine, and where each container sees them.

ConfigMap, Secret, downward API, projected (with service account tokens) and emptyDir. A bucket that the GCS FUSE
driver mounts is a folder that all pods share. An emptyDir of medium Memory is a folder in memory; its size limit is not
enforced. Every other kind, hostPath too, is refused as a kubelet without such a driver refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control_plane import Api, Object
from control_plane.users import token_of

from kubelet.sources import SourceMissing, Sources

FUSE_DRIVER = "gcsfuse.csi.storage.gke.io"
Files = dict[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file or folder of this machine at a path of a container."""

    source: Path
    target: str
    is_read_only: bool


class Volumes:
    """The volumes of one pod."""

    def __init__(self, api: Api, pod: Object, sources: Sources, folder: Path, buckets: Path) -> None:
        self._api, self._pod, self._sources = api, pod, sources
        self._folder, self._buckets = folder, buckets
        self._made: dict[str, Path] = {}

    def make(self) -> None:
        """Lay down what is not there yet; call it again after an error.

        Raises:
            SourceMissing: An object that one of them shows is not there, or there is no such kind of volume here.
        """
        for volume in self._pod["spec"].get("volumes", []):
            if volume["name"] not in self._made:
                self._made[volume["name"]] = self._one(volume)

    def mounts(self, container: Object) -> list[Mount]:
        """What a container sees of them, in the order in which they must be mounted."""
        asked = sorted(container.get("volumeMounts", []), key=lambda mount: str(mount["mountPath"]))
        return [self._mount(mount) for mount in asked]

    def _mount(self, asked: Object) -> Mount:
        source = self._made[asked["name"]]
        if below := asked.get("subPath"):
            source = source / below
            if not source.exists():
                source.mkdir(parents=True)
        return Mount(source=source, target=asked["mountPath"], is_read_only=bool(asked.get("readOnly")))

    def _one(self, volume: Object) -> Path:
        kind = next((key for key in volume if key != "name"), "emptyDir")
        if kind == "csi" and volume["csi"]["driver"] == FUSE_DRIVER:
            folder = self._buckets / str(volume["csi"]["volumeAttributes"]["bucketName"])
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        files = {} if kind == "emptyDir" else self._files(kind, volume[kind])
        folder = self._folder / str(volume["name"])
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(int(volume[kind].get("defaultMode", 0o644)))
        return folder

    def _files(self, kind: str, source: Object) -> Files:
        if kind == "configMap":
            return _chosen(self._sources.config_map(source), source)
        if kind == "secret":
            name = {"name": source.get("secretName", source.get("name")), "optional": source.get("optional")}
            return _chosen(self._sources.secret(name), source)
        if kind == "downwardAPI":
            return {item["path"]: self._field(item).encode() for item in source.get("items", [])}
        if kind == "serviceAccountToken":
            return {source["path"]: self._token(source.get("audience")).encode()}
        if kind == "projected":
            parts = [(key, part[key]) for part in source["sources"] for key in part]
            return {name: content for key, part in parts for name, content in self._files(key, part).items()}
        raise SourceMissing(f"volume plugin for {kind} is not there: this kubelet has none for it")

    def _field(self, item: Object) -> str:
        if "fieldRef" in item:
            return self._sources.field(item["fieldRef"]["fieldPath"])
        return self._sources.resource(item["resourceFieldRef"], self._pod["spec"]["containers"][0])

    def _token(self, audience: str | None) -> str:
        account: Any = self._pod["spec"].get("serviceAccountName", "default")
        return token_of(self._api, self._pod["metadata"]["namespace"], account, audience)


def _chosen(data: Files | None, source: Object) -> Files:
    """All keys, or the named ones under the paths that are given for them."""
    if data is None or "items" not in source:
        return data or {}
    missing = [item["key"] for item in source["items"] if item["key"] not in data]
    if missing and not source.get("optional"):
        raise SourceMissing(f"references non-existent config key: {missing[0]}")
    return {item["path"]: data[item["key"]] for item in source["items"] if item["key"] in data}
