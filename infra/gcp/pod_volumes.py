"""Which folders does a host's container see? Ours, and those that its job asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.gcp import names
from prefect_tpu.infra.pod_checks import SHARED_MEMORY
from prefect_tpu.infra.pods import PodSettings

FUSE_DRIVER = "gcsfuse.csi.storage.gke.io"
FUSE_ANNOTATION = {"gke-gcsfuse/volumes": "true"}  # on the pod: by it GKE adds the container that reads the bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """One folder of the container: where it is seen, and what lies behind it."""

    name: str
    path: str
    source: Mapping[str, Any]
    is_read_only: bool = False

    @property
    def volume(self) -> dict[str, Any]:
        return {"name": self.name, **self.source}

    @property
    def mount(self) -> dict[str, Any]:
        return {"name": self.name, "mountPath": self.path, **({"readOnly": True} if self.is_read_only else {})}


def folders(pods: PodSettings, archive_name: str) -> tuple[Folder, ...]:
    """In the order of the manifest: ours, then the job's in its order."""
    return (
        Folder(
            name="prefect-tpu-host",
            path=names.ARCHIVE_FOLDER,
            source={"configMap": {"name": archive_name}},
            is_read_only=True,
        ),
        Folder(name="prefect-tpu-scratch", path=names.SCRATCH_FOLDER, source={"emptyDir": {}}),
        Folder(name="prefect-tpu-shm", path=SHARED_MEMORY, source=_empty(pods.shared_memory, in_memory=True)),
        *(
            Folder(
                name=f"volume-{number}",
                path=path,
                source=_source(source),
                is_read_only=source.startswith(("configmap:", "secret:")),
            )
            for number, (path, source) in enumerate(pods.volumes.items())
        ),
    )


def reads_buckets(pods: PodSettings) -> bool:
    return any(source.startswith("gs://") for source in pods.volumes.values())


def _source(written: str) -> dict[str, Any]:
    """What a volume is, from how a person writes it; `PodSettings` has checked that it can be read."""
    if written.startswith("gs://"):
        return _bucket(written)
    kind, _, name = written.partition(":")
    if kind == "configmap":
        return {"configMap": {"name": name}}
    if kind == "secret":
        return {"secret": {"secretName": name}}
    if kind == "claim":
        return {"persistentVolumeClaim": {"claimName": name}}
    return _empty(name or None)


def _bucket(url: str) -> dict[str, Any]:
    bucket, _, folder = url.removeprefix("gs://").partition("/")
    options = ["implicit-dirs", *([f"only-dir={folder.strip('/')}"] if folder.strip("/") else [])]
    attributes = {"bucketName": bucket, "mountOptions": ",".join(options)}
    return {"csi": {"driver": FUSE_DRIVER, "volumeAttributes": attributes}}


def _empty(size: str | None, *, in_memory: bool = False) -> dict[str, Any]:
    medium = {"medium": "Memory"} if in_memory else {}
    return {"emptyDir": {**medium, **({"sizeLimit": size} if size else {})}}
