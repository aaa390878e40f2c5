"""What does a job want of its pods? Only for backends that run hosts in a Kubernetes cluster.

Names of things that lie in the cluster, never their contents: a secret is
named, and Kubernetes alone hands its value to the program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Any

from prefect_tpu.infra import contract
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job_checks import nearest, shown

NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")  # of a Kubernetes object: RFC 1123, subdomain
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # of a namespace, queue or service: RFC 1123, label
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
SECRET = re.compile(r"([^/]+)/([-._a-zA-Z0-9]+)")
CAPACITIES = ("on-demand", "spot", "reserved", "flex-start", "queue")
_QUANTITIES = ("cpu", "memory", "ephemeral_storage", "shared_memory")
_NAMES = ("service_account", "priority_class", "reservation", "provisioning_request")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSettings:
    """How the hosts of a job run as pods.

    image: what each host's container runs; it needs Python and whatever the program needs, and nothing of ours.
    cluster: a kubeconfig context, `gke://project/location/cluster`, or None: the cluster this process is in, else the
        kubeconfig's current context.
    namespace: where the objects are made.
    python: the interpreter in the image.
    service_account: whose rights the program has.
    pull_secrets: names of the secrets by which the nodes fetch the image.
    cpu, memory, ephemeral_storage: Kubernetes quantities of each host; by default what the accelerator's machine has
        left for pods, where that is known.
    shared_memory: the size of /dev/shm.
    priority_class: by which the scheduler chooses who goes first.
    queue: a Kueue LocalQueue that admits the job.
    reservation: the name of a reservation, `projects/P/reservations/R` for a shared one.
    provisioning_request: of queued provisioning, the name of the request that holds the nodes.
    secrets: environment variable → `secret/key`.
    volumes: absolute path → `gs://bucket[/folder]`, `configmap:NAME`, `secret:NAME`, `claim:NAME` or `empty[:SIZE]`.
    node_selector, labels, annotations: added to ours.
    ttl: seconds after its end that the objects of an attempt stay.
    """

    image: str
    cluster: str | None = None
    namespace: str = "default"
    python: str = "python3"
    service_account: str | None = None
    pull_secrets: tuple[str, ...] = ()
    cpu: str | None = None
    memory: str | None = None
    ephemeral_storage: str | None = None
    shared_memory: str | None = None
    priority_class: str | None = None
    queue: str | None = None
    reservation: str | None = None
    provisioning_request: str | None = None
    secrets: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    ttl: int = 86_400

    def __post_init__(self) -> None:
        if not isinstance(self.image, str) or not self.image.strip() or self.image != self.image.strip():
            raise UsageError(f"The image is {shown(self.image)}: name one that has Python and the program's packages.")
        if not LABEL.fullmatch(self.namespace):
            raise UsageError(f"Namespace {self.namespace!r} cannot be one: use a-z, 0-9 and '-', at most 63 of them.")
        for name in _QUANTITIES:
            _check_quantity(name, getattr(self, name))
        for name in _NAMES:
            _check_name(name, getattr(self, name))
        _check_name("queue", self.queue)
        for name, secret in self.secrets.items():
            _check_secret(name, secret)
        for path, source in self.volumes.items():
            _check_volume(path, source)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> PodSettings:
        known = {f.name for f in fields(cls)}
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
        }
        with contract.reading("The pod settings of a job"):
            return cls(**{key: value for key, value in values.items() if key in known})


def pod_settings(given: dict[str, Any]) -> PodSettings:
    """What a person gave by name. Raises `UsageError` for an unknown name, with the nearest one, or no image."""
    known = [f.name for f in fields(PodSettings)]
    for name in given:
        if name not in known:
            raise UsageError(f"Pods have no setting {name!r}. {nearest(name, known) or f'They have: {known}.'}")
    if "image" not in given:
        raise UsageError(
            "Hosts in a cluster need an image: name one that has Python and the program's packages (image=…, --image)."
        )
    return PodSettings(**given)


def _check_quantity(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, str) and QUANTITY.fullmatch(value)):
        raise UsageError(f"{name} is {shown(value)}: give a Kubernetes quantity such as '8', '500m' or '16Gi'.")


def _check_name(name: str, value: Any) -> None:
    plain = value.rpartition("/")[2] if name == "reservation" and isinstance(value, str) else value
    if value is not None and not (isinstance(plain, str) and NAME.fullmatch(plain)):
        raise UsageError(f"{name} is {shown(value)}: give the name of an object, of a-z, 0-9, '-' and '.'.")


def _check_secret(variable: str, secret: Any) -> None:
    match = SECRET.fullmatch(secret) if isinstance(secret, str) else None
    if match is None or not NAME.fullmatch(match[1]):  # the value is not shown: it may be the secret itself
        raise UsageError(f"The secret of {variable!r} must be named as 'secret/key', never given.")


def _check_volume(path: Any, source: Any) -> None:
    kinds = ("gs://", "configmap:", "secret:", "claim:", "empty")
    if not isinstance(path, str) or not path.startswith("/") or path == "/":
        raise UsageError(f"A volume is mounted at {shown(path)}: give an absolute path other than '/'.")
    if not isinstance(source, str) or not source.startswith(kinds):
        raise UsageError(f"The volume at {path} is {shown(source)}: it starts with one of {', '.join(kinds)}.")
