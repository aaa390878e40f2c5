"""What is asked of the API server, and how is it said in a message?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from prefect_tpu.infra.gcp.resources import ACCESS_REVIEWS, Resource

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_SAYING_WHAT_IS = (MERGE_PATCH, STRATEGIC_PATCH)  # how an object shall be, not what is done to it: twice is as once
_METHODS = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}
_BRIEF = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_READING = ("get", "list", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. `verb` is Kubernetes' own word, the one that permissions are given for.

    is_brief: of the object that is the answer, its metadata are enough.
    """

    verb: str
    resource: Resource
    namespace: str | None = None
    name: str | None = None
    part: str | None = None  # a subresource such as `log` or `status`
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    content_type: str = JSON
    is_brief: bool = False
    path: str | None = None  # in place of the objects' own, for what the API server says of itself

    @property
    def method(self) -> str:
        return _METHODS.get(self.verb, "GET")

    @property
    def accept(self) -> str:
        """What the answer may be; a server that knows of no brief ones gives the whole object."""
        return f"{_BRIEF}, {JSON}" if self.is_brief else JSON

    @property
    def address(self) -> str:
        rest = [part for part in (self.name if self.verb != "create" else None, self.part) if part]
        path = self.path or self.resource.path(self.namespace, *rest)
        return f"{path}?{urlencode(self.query)}" if self.query else path

    @property
    def may_be_repeated(self) -> bool:
        """Whether a second one does no harm where nobody knows what became of the first."""
        if self.verb == "delete":
            return bool(self.body and self.body.get("preconditions"))
        is_question = self.resource == ACCESS_REVIEWS  # asked by creating what is never kept
        return is_question or self.verb in _READING or self.content_type in _SAYING_WHAT_IS or "dryRun" in self.query

    @property
    def object(self) -> str:
        """`jobset 'digits-1' in namespace 'research'`, for messages."""
        kind = self.resource.kind if self.name else self.resource.full_name
        what = " ".join(filter(None, (f"the {self.part} of" if self.part else "", kind, self.name and repr(self.name))))
        where = self.namespace if self.resource.is_namespaced else None
        return f"{what} in namespace {where!r}" if where else what

    @property
    def can_i(self) -> str:
        """The command by which a person asks whether they may."""
        part = f" --subresource={self.part}" if self.part else ""
        where = f" --namespace {self.namespace}" if self.namespace and self.resource.is_namespaced else ""
        if self.resource.is_namespaced and not self.namespace:
            where = " --all-namespaces"
        return f"kubectl auth can-i {self.verb} {self.resource.full_name}{part}{where}"
