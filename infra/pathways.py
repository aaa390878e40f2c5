"""What does a job want of Pathways? Only for the backend of that name: one program, alone, drives all chips.

Which images fit which JAX stands here, as far as it is known; everything else that Pathways takes is a flag.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from prefect_tpu.infra import contract
from prefect_tpu.infra import pod_checks as checks
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job_checks import check_count, nearest, shown

PROXY_PORT = 29000  # where JAX finds the chips
REGISTRY = "us-docker.pkg.dev/cloud-tpu-v2-images/pathways"
# Each tag is made for one JAX, whose client must match it. Tags that were seen in use, by the JAX that they name.
TAGS = {"0.9.0": "20260128-jax_0.9.0", "0.10.1": "20260608-jax_0.10.1", "0.10.2": "20261001-jax_0.10.2"}
_BUCKET = re.compile(r"[a-z0-9][-a-z0-9_.]{1,220}[a-z0-9]")  # a bucket's name
_FOLDER = re.compile(r"[^\s,]*")
_FLAG = re.compile(r"--[A-Za-z0-9_]+(=\S*)?")
_IMAGES = ("server_image", "proxy_image", "colocated_python")
_QUANTITIES = ("manager_cpu", "manager_memory", "proxy_cpu", "proxy_memory")
_FLAGS = ("manager_flags", "proxy_flags", "worker_flags")
_SWITCH = {"true": True, "false": False}


def _wrong_in(url: str) -> str | None:
    """Which part of a bucket's folder is none, and what it has to be."""
    scheme, _, rest = url.partition("://")
    bucket, _, folder = rest.partition("/")
    if scheme != "gs" or not rest:
        return "name a folder of a bucket, gs://bucket/folder."
    if not _BUCKET.fullmatch(bucket):
        what = "a bucket's name has 3 to 222 of a-z, 0-9, '-', '_' and '.', and begins and ends with a letter or digit."
        return f"{shown(bucket)} is no bucket: {what}"
    if not _FOLDER.fullmatch(folder):
        return f"the folder {shown(folder)} has a space or a comma, which a flag of Pathways cannot have."
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Of the two programs of Pathways: `server` is its resource manager and its workers, `proxy` what JAX speaks to."""

    server: str
    proxy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathwaysSettings:
    """How Pathways runs beside a program. One of `jax`, `version` and both images is needed.

    jax: the JAX version in the job's image, by which Pathways' images are chosen.
    version: the tag of these images, such as `20261001-jax_0.10.2`, where another one is wanted.
    server_image, proxy_image: whole images in place of Google's.
    scratch: a bucket's folder in which Pathways keeps what it needs while it runs; by default one of the job's output.
    head_pool: the node pool of the program and of Pathways' own two; by default wherever they fit. It needs no chips.
    elastic_slices: how many slices may be lost and come back while the program runs on; 0: none.
    slice_restarts: how often each worker of an elastic job may be started again within an attempt.
    colocated_python: an image that runs the program's own Python beside the chips.
    host_network: use the network of the machines, without the rights of the job's service account.
    manager_cpu, manager_memory, proxy_cpu, proxy_memory: what Pathways' two beside the program ask for.
    manager_flags, proxy_flags, worker_flags: further flags of its programs, put behind ours.
    """

    jax: str | None = None
    version: str | None = None
    server_image: str | None = None
    proxy_image: str | None = None
    scratch: str | None = None
    head_pool: str | None = None
    elastic_slices: int = 0
    slice_restarts: int = 4
    colocated_python: str | None = None
    host_network: bool = False
    manager_cpu: str | None = None
    manager_memory: str | None = None
    proxy_cpu: str | None = None
    proxy_memory: str | None = None
    manager_flags: tuple[str, ...] = ()
    proxy_flags: tuple[str, ...] = ()
    worker_flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("jax", "version"):
            checks.check_text(f"pathways.{name}", getattr(self, name))
        for name in _IMAGES:
            checks.check_other_image(f"pathways.{name}", getattr(self, name))
        for name in _QUANTITIES:
            checks.check_quantity(f"pathways.{name}", getattr(self, name))
        checks.check_label("pathways.head_pool", self.head_pool)
        check_count("pathways.elastic_slices", self.elastic_slices)
        check_count("pathways.slice_restarts", self.slice_restarts)
        checks.check_truth("pathways.host_network", self.host_network)
        if self.scratch is not None and (wrong := _wrong_in(str(self.scratch))):
            raise UsageError(f"pathways.scratch is {shown(self.scratch)}: {wrong}")
        for name in _FLAGS:
            for flag in getattr(self, name):
                if not _FLAG.fullmatch(str(flag)):
                    raise UsageError(f"pathways.{name} has {shown(flag)}, which is no flag: write --name=value.")

    def images(self) -> Images:
        """Which images run. Raises `UsageError` where nobody says which JAX they must fit, or that one is not known."""
        if self.server_image and self.proxy_image:
            return Images(server=self.server_image, proxy=self.proxy_image)
        tag = self.version or self._tag()
        return Images(
            server=self.server_image or f"{REGISTRY}/server:{tag}",
            proxy=self.proxy_image or f"{REGISTRY}/proxy_server:{tag}",
        )

    def _tag(self) -> str:
        if self.jax is None:
            raise UsageError(
                "Pathways' images are made for one JAX each: name that of the job's image (--pod pathways.jax="
                f"{max(TAGS, key=_in_order)}), or their tag (--pod pathways.version={TAGS[max(TAGS, key=_in_order)]})."
            )
        if self.jax not in TAGS:
            raise UsageError(
                f"Which images of Pathways fit JAX {self.jax} is not known here (known: {', '.join(TAGS)}): name their"
                f" tag, --pod pathways.version=DATE-jax_{self.jax}, once {REGISTRY} has it."
            )
        return TAGS[self.jax]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> PathwaysSettings:
        known = {f.name for f in fields(cls)}
        with contract.reading("What a job wants of Pathways"):
            return cls(**{key: _whole(value) for key, value in data.items() if key in known})


def pathways_settings(given: Mapping[str, Any] | PathwaysSettings) -> PathwaysSettings:
    """What a person gave by name, also as texts; empty text says nothing. Raises `UsageError` for an unknown name."""
    if isinstance(given, PathwaysSettings):
        return given
    if not isinstance(given, Mapping):
        raise UsageError(f"pathways is {shown(given)}: give its settings by name, such as jax.")
    kinds = {f.name: type(f.default) for f in fields(PathwaysSettings)}
    for name in given:
        if name not in kinds:
            hint = nearest(str(name), kinds) or f"It has: {', '.join(kinds)}."
            raise UsageError(f"Pathways has no setting {name!r}. {hint}")
    said = {name: value for name, value in given.items() if value is not None and value != ""}
    return PathwaysSettings(**{name: _read(kinds[name], value) for name, value in said.items()})


def _read(kind: type, value: Any) -> Any:
    """A text as the setting's kind; what is none, or cannot be read, is refused where settings are checked."""
    if not isinstance(value, str):
        return _whole(value)
    if kind is tuple:
        return tuple(value.split(","))
    if kind is bool:
        return _SWITCH.get(value.lower(), value)
    return int(value) if kind is int and value.isdecimal() else value


def _whole(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _in_order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
