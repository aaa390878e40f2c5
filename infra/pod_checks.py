"""Can pods be made with these settings? Each check raises `UsageError` with what to change.

What Kubernetes would refuse hosts later is refused here, before anything is written. The value of a secret, given by
mistake, is never shown.
"""

from __future__ import annotations

import re
from typing import Any

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job_checks import OWN_VARIABLES, shown
from prefect_tpu.infra.zones import check_cluster

OWN_FOLDER = "/prefect-tpu"  # in a host's container: what it runs, and where its program writes to it
SHARED_MEMORY = "/dev/shm"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")  # of an object: RFC 1123, subdomain
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # of a namespace, queue or service: RFC 1123, label
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"([^/]+)/([-._a-zA-Z0-9]{1,253})")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_BUCKET = re.compile(r"gs://[a-z0-9][-a-z0-9_.]{1,220}[a-z0-9](/[^,]*)?")  # a comma would end the folder's name
_ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z0-9]+")
_EMAIL = re.compile(r"[A-Za-z0-9._-]+@[a-z0-9][a-z0-9.-]*")
_NO_SECRETS = OWN_VARIABLES - {Env.REGION_KEY}  # which is one, of the job's own Secret
_OURS = ("prefect-tpu/", "jobset.sigs.k8s.io/", "app.kubernetes.io/managed-by", "kueue.x-k8s.io/queue-name")


def check_image(image: Any) -> None:
    if not _is_image(image):
        raise UsageError(f"The image is {shown(image)}: name one that has Python and the program's packages.")


def check_other_image(name: str, image: Any) -> None:
    """One that has nothing of the program's."""
    if image is not None and not _is_image(image):
        raise UsageError(f"{name} is {shown(image)}: name an image, or leave it out.")


def _is_image(image: Any) -> bool:
    return isinstance(image, str) and re.fullmatch(r"\S+", image) is not None


def check_text(name: str, value: Any) -> None:
    """A word of its own: a context, an interpreter."""
    if value is not None and (not isinstance(value, str) or not value or re.search(r"\s", value)):
        raise UsageError(f"{name} is {shown(value)}: give one word, or leave it out.")


def check_clusters(first: Any, others: Any) -> None:
    """In order of preference, each named once."""
    if not isinstance(others, tuple):
        raise UsageError(f"fallback_clusters is {shown(others)}: give a list of clusters.")
    for cluster in others:
        check_text("fallback_clusters", cluster if cluster else "")
    if others and first is None:
        raise UsageError("fallback_clusters are given, and no cluster before them: name the first choice as cluster.")
    if len({first, *others}) <= len(others):
        raise UsageError("A cluster is named twice, as first choice or fallback: leave one of them out.")
    for cluster in (first, *others):
        check_cluster(cluster)


def check_zones(zones: Any) -> None:
    if not isinstance(zones, tuple):
        raise UsageError(f"zones is {shown(zones)}: give a list of zones.")
    for zone in zones:
        if not isinstance(zone, str) or not _ZONE.fullmatch(zone):
            raise UsageError(f"zones has {shown(zone)}: give zones of Google Cloud, such as us-east5-b.")
    if len(set(zones)) < len(zones):
        raise UsageError("A zone is named twice: leave one of them out.")


def check_truth(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise UsageError(f"{name} is {shown(value)}: give true or false.")


def check_email(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, str) and _EMAIL.fullmatch(value)):
        raise UsageError(f"{name} is {shown(value)}: give an email address, NAME@PROJECT.iam.gserviceaccount.com.")


def check_label(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, str) and _LABEL.fullmatch(value)):
        raise UsageError(f"{name} is {shown(value)}: use a-z, 0-9 and '-', at most 63 of them.")


def check_name(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, str) and _NAME.fullmatch(value)):
        raise UsageError(f"{name} is {shown(value)}: give the name of an object, of a-z, 0-9, '-' and '.'.")


def check_names(name: str, values: Any) -> None:
    if not isinstance(values, tuple):
        raise UsageError(f"{name} is {shown(values)}: give a list of names.")
    for value in values:
        check_name(name, value if value else "")


def check_reservation(value: Any) -> None:
    """Its name becomes a label value, so it has no project before it there."""
    if value is None:
        return
    project, slash, name = str(value).rpartition("/reservations/")
    is_shared = not slash or _NAME.fullmatch(project.removeprefix("projects/"))
    if not isinstance(value, str) or not _LABEL.fullmatch(name) or not is_shared:
        raise UsageError(f"reservation is {shown(value)}: give its name, or projects/PROJECT/reservations/NAME.")


def check_quantity(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, str) and _QUANTITY.fullmatch(value)):
        raise UsageError(f"{name} is {shown(value)}: give a Kubernetes quantity such as '8', '500m' or '16Gi'.")


def check_seconds(name: str, value: Any) -> None:
    """What Kubernetes counts in 32 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise UsageError(f"{name} is {shown(value)}: give a whole number of seconds, 0 or more.")


def check_labels(name: str, labels: Any, *, are_ours_free: bool = False) -> None:
    """Labels of objects or nodes. What we set ourselves may not be given, but nodes may be chosen by anything."""
    _check_mapping(name, labels)
    for key, value in labels.items():
        check_key(name, key)
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise UsageError(f"{name} has {key}={shown(value)}: at most 63 of A-Z, a-z, 0-9, '-', '_' and '.'.")
        if not are_ours_free and key.startswith(_OURS):
            raise UsageError(f"{name} has {key!r}, which is set by prefect-tpu itself or has an option: leave it out.")


def check_annotations(annotations: Any) -> None:
    _check_mapping("annotations", annotations)
    for key, value in annotations.items():
        check_key("annotations", key)
        if not isinstance(value, str):
            raise UsageError(f"annotations has {key}={shown(value)}: values are text, so write {str(value)!r}.")


def check_key(name: str, key: Any) -> None:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise UsageError(f"{name} has {shown(key)}, which is no key: write NAME or domain/NAME, NAME at most 63 long.")


def check_secrets(secrets: Any) -> None:
    _check_mapping("secrets", secrets)
    for variable, place in secrets.items():
        if not isinstance(variable, str) or not _VARIABLE.fullmatch(variable) or variable in _NO_SECRETS:
            raise UsageError(f"A secret cannot be in the variable {shown(variable)}: use letters, digits and '_'.")
        match = _SECRET.fullmatch(place) if isinstance(place, str) else None
        if match is None or not _NAME.fullmatch(match[1]):
            raise UsageError(f"The secret of {variable!r} must be named as 'secret/key', never given.")


def check_volumes(volumes: Any) -> None:
    _check_mapping("volumes", volumes)
    for path, source in volumes.items():
        if not isinstance(path, str) or not path.startswith("/") or set(path) <= {"/"} or ":" in path or ".." in path:
            raise UsageError(f"A volume is mounted at {shown(path)}: give an absolute path other than '/'.")
        if f"{path}/".startswith((f"{OWN_FOLDER}/", f"{SHARED_MEMORY}/")):
            raise UsageError(f"A volume is mounted at {path}, which is prefect-tpu's own: choose another path.")
        if not isinstance(source, str) or not _is_source(source):
            raise UsageError(
                f"The volume at {path} is {shown(source)}: write gs://bucket/folder, configmap:NAME, secret:NAME,"
                " claim:NAME, empty or empty:SIZE."
            )


def _is_source(source: str) -> bool:
    kind, _, name = source.partition(":")
    if kind == "empty":
        return source == "empty" or _QUANTITY.fullmatch(name) is not None
    if kind in ("configmap", "secret", "claim"):
        return _NAME.fullmatch(name) is not None
    return _BUCKET.fullmatch(source) is not None


def _check_mapping(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise UsageError(f"{name} is {type(value).__name__}: give a dictionary by name.")
