"""Writes terraform_google.json: what resources of Terraform's Google provider take, as a package of it describes them.

    python -m pip download --no-deps cdktf-cdktf-provider-google==16.12.1
    python tests/oracles/terraform_google.py cdktf_cdktf_provider_google-16.12.1-py3-none-any.whl

The package was generated from the schema that the provider itself gives out. What it does not keep: whether a
collection is a list or a set, and which values a text may have.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_suffix(".json")
RESOURCES = (
    "artifact_registry_repository",
    "compute_network",
    "compute_subnetwork",
    "container_cluster",
    "container_node_pool",
    "project_iam_custom_role",
    "project_iam_member",
    "project_service",
    "service_account",
    "service_account_iam_member",
    "storage_bucket",
    "storage_bucket_iam_member",
)
PRIMITIVES = {"string": "string", "number": "number", "boolean": "bool", "any": "string"}
Object = dict[str, Any]


def described(wheel: Path) -> Object:
    """The package's own description of its types, and the provider that they are of."""
    with zipfile.ZipFile(wheel) as outer:
        inner = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(inner))) as files:
            package = json.load(files.extractfile("package/package.json"))  # type: ignore[arg-type]
            types = json.load(files.extractfile("package/.jsii"))["types"]  # type: ignore[arg-type]
    return {"provider": package["cdktf"]["provider"], "types": types}


class Reader:
    """Reads what a resource takes."""

    def __init__(self, types: Object) -> None:
        self._types = types

    def resource(self, name: str) -> Object:
        """A resource of the provider, with what it computes beside what it takes."""
        words = name.split("_")
        title = "".join(word.title() for word in words)
        module = f"@cdktf/provider-google.{words[0]}{title.removeprefix(words[0].title())}"
        block = self._block(f"{module}.{title}Config")
        taken = {one["name"] for one in self._types[f"{module}.{title}Config"]["properties"]}
        for one in self._types[f"{module}.{title}"]["properties"]:
            kind, own = self._kind(one["type"]), one["name"]
            is_taken = own in taken or own.endswith("Input") or own == "tfResourceType"
            if not is_taken and isinstance(kind, str | list):
                block["attributes"].setdefault(_snake(own), {"type": kind, "computed": True})
        block["attributes"]["id"] = {"type": "string", "optional": True, "computed": True}
        return block

    def _block(self, name: str) -> Object:
        found: Object = {"attributes": {}, "blocks": {}}
        for one in self._types[name]["properties"]:
            remarks = one.get("docs", {}).get("remarks", "")
            written = remarks.rsplit("#", 1)[-1].split("}")[0].strip() if "#" in remarks else _snake(one["name"])
            kind, optional = self._kind(one["type"]), bool(one.get("optional"))
            if isinstance(kind, dict):
                limit = 1 if kind["single"] else 0
                nested = {"min": 0 if optional else 1, "max": limit, **self._block(kind["block"])}
                found["blocks"][written] = nested
            elif kind is not None:
                found["attributes"][written] = {"type": kind, ("optional" if optional else "required"): True}
        return found

    def _kind(self, told: Object) -> str | list[Any] | Object | None:
        """A type of Terraform; a dict names a block; None is none of Terraform's."""
        if "union" in told:
            kinds = [one for one in told["union"]["types"] if one.get("fqn") != "cdktf.IResolvable"]
            return self._kind(kinds[0])
        if "primitive" in told:
            return PRIMITIVES[told["primitive"]]
        if "collection" in told:
            inner = self._kind(told["collection"]["elementtype"])
            if isinstance(inner, dict):
                return {**inner, "single": False}
            return [{"array": "list", "map": "map"}[told["collection"]["kind"]], inner]
        known = self._types.get(told["fqn"])
        is_block = known is not None and known["kind"] == "interface"
        return {"block": told["fqn"], "single": True} if is_block else None


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def main(wheel: Path) -> None:
    found = described(wheel)
    reader = Reader(found["types"])
    resources = {f"google_{name}": reader.resource(name) for name in RESOURCES}
    text = json.dumps({"provider": found["provider"], "resources": resources}, separators=(",", ":"), sort_keys=True)
    TARGET.write_text(text.replace('"google_', '\n"google_') + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
