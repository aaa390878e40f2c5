"""The messages by which Terraform speaks to a provider, version 5 of its protocol: as much as a fake answers.

Numbers are the protocol's (https://developer.hashicorp.com/terraform/plugin/terraform-plugin-protocol); names are ours
where nothing depends on them. A call's answer that is one value calls it `value`.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_KINDS = {"bytes": _FIELD.TYPE_BYTES, "string": _FIELD.TYPE_STRING, "bool": _FIELD.TYPE_BOOL, "int": _FIELD.TYPE_INT64}
PACKAGE = "terraform"

# Parts, then what each call is asked with and answers with: field → (number, kind); a list is repeated.
_PARTS: dict[str, dict[str, tuple[int, Any]]] = {
    "Value": {"msgpack": (1, "bytes")},
    "Attribute": {
        "name": (1, "string"),
        "type": (2, "bytes"),
        "required": (4, "bool"),
        "optional": (5, "bool"),
        "computed": (6, "bool"),
    },
    "NestedBlock": {
        "type_name": (1, "string"),
        "block": (2, "Block"),
        "nesting": (3, "int"),
        "min_items": (4, "int"),
        "max_items": (5, "int"),
    },
    "Block": {"attributes": (2, ["Attribute"]), "block_types": (3, ["NestedBlock"])},
    "Schema": {"version": (1, "int"), "block": (2, "Block")},
}
MESSAGES: dict[str, tuple[dict[str, tuple[int, Any]], dict[str, tuple[int, Any]]]] = {
    "GetSchema": ({}, {"provider": (1, "Schema"), "resource_schemas": (2, {"Schema"})}),
    "PrepareProviderConfig": ({"config": (1, "Value")}, {"value": (1, "Value")}),
    "Configure": ({}, {}),
    "ValidateResourceTypeConfig": ({}, {}),
    "PlanResourceChange": ({"type_name": (1, "string"), "proposed": (3, "Value")}, {"value": (1, "Value")}),
    "ApplyResourceChange": ({"type_name": (1, "string"), "planned": (3, "Value")}, {"value": (1, "Value")}),
    "Stop": ({}, {}),
}


def message_of(name: str) -> Any:
    """The class of a message, such as `GetSchemaRequest`."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="terraform.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _PARTS.items():
        _add(file, name, fields)
    for name, (asked, answered) in MESSAGES.items():
        _add(file, f"{name}Request", asked)
        _add(file, f"{name}Response", answered)
    return file


def _add(file: descriptor_pb2.FileDescriptorProto, name: str, fields: dict[str, tuple[int, Any]]) -> None:
    message = file.message_type.add(name=name)
    for field, (number, kind) in fields.items():
        if isinstance(kind, set):
            (value,) = kind
            entry = message.nested_type.add(name="".join(word.title() for word in field.split("_")) + "Entry")
            entry.options.map_entry = True
            _set(entry.field.add(name="key", number=1), "string", False)
            _set(entry.field.add(name="value", number=2), value, False)
            _set(message.field.add(name=field, number=number), f"{name}.{entry.name}", True)
        else:
            is_repeated = isinstance(kind, list)
            _set(message.field.add(name=field, number=number), kind[0] if is_repeated else kind, is_repeated)


def _set(field: descriptor_pb2.FieldDescriptorProto, kind: str, is_repeated: bool) -> None:
    field.label = _FIELD.LABEL_REPEATED if is_repeated else _FIELD.LABEL_OPTIONAL
    if kind in _KINDS:
        field.type = _KINDS[kind]
    else:
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{PACKAGE}.{kind}"


_POOL = descriptor_pool.DescriptorPool()
_POOL.AddSerializedFile(_file().SerializeToString())
