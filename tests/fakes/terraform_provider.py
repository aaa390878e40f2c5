"""Google's provider as Terraform meets it: a server that takes what the real one takes, and makes nothing.

What resources take is a table of facts, ../oracles/terraform_google.json. Terraform itself then refuses whatever
is not in it, as with the real one, and works out every expression. What only Google knows, such as the address of an
account, is made up in the form that Google has for it; whether Google would do what it is asked is not known here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import msgpack
from terraform_protocol import MESSAGES, message_of

ORACLE = Path(__file__).parents[1] / "oracles/terraform_google.json"
ADDRESS = "registry.terraform.io/hashicorp/google"
PROVIDER = {"attributes": {name: {"type": "string", "optional": True} for name in ("project", "region", "zone")}}
LIST = 2  # of the ways in which a block is nested
UNKNOWN = msgpack.ExtType(0, b"\x00")  # until it is made
Object = dict[str, Any]


@contextmanager
def running() -> Iterator[Mapping[str, str]]:
    """The provider; the environment in which Terraform takes it for Google's."""
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    provider = Provider(json.loads(ORACLE.read_text())["resources"])
    handlers = {name: _handler(name, answer) for name, answer in provider.answers.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("tfplugin5.Provider", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield {"TF_REATTACH_PROVIDERS": json.dumps({ADDRESS: _found_at(port)})}
    finally:
        server.stop(grace=None).wait()


def _found_at(port: int) -> Object:
    address = {"Network": "tcp", "String": f"127.0.0.1:{port}"}
    return {"Protocol": "grpc", "ProtocolVersion": 5, "Pid": os.getpid(), "Test": True, "Addr": address}


def _handler(name: str, answer: Callable[[Any], Object]) -> grpc.RpcMethodHandler:
    asked, given = message_of(f"{name}Request"), message_of(f"{name}Response")
    return grpc.unary_unary_rpc_method_handler(
        lambda request, _: given(**answer(request)),
        request_deserializer=asked.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )


class Provider:
    """What it answers, call by call."""

    def __init__(self, resources: Mapping[str, Object]) -> None:
        self._resources = resources
        self.answers: dict[str, Callable[[Any], Object]] = {
            "GetSchema": self._schema,
            "PrepareProviderConfig": lambda asked: {"value": asked.config},
            "Configure": lambda asked: {},
            "ValidateResourceTypeConfig": lambda asked: {},
            "PlanResourceChange": self._plan,
            "ApplyResourceChange": self._apply,
            "Stop": lambda asked: {},
        }
        assert set(self.answers) == set(MESSAGES), "each call has its messages"

    def _schema(self, asked: Any) -> Object:
        schemas = {name: {"version": 1, "block": _block(block)} for name, block in self._resources.items()}
        return {"provider": {"block": _block(PROVIDER)}, "resource_schemas": schemas}

    def _plan(self, asked: Any) -> Object:
        """As it is wished, and what the provider finds out is not known yet."""
        state = msgpack.unpackb(asked.proposed.msgpack)
        if state is not None:
            state |= {name: UNKNOWN for name in self._computed(asked.type_name) if state[name] is None}
        return {"value": {"msgpack": msgpack.packb(state)}}

    def _apply(self, asked: Any) -> Object:
        state = msgpack.unpackb(asked.planned.msgpack)
        if state is not None:
            attributes = self._resources[asked.type_name]["attributes"]
            for name in [name for name, value in state.items() if isinstance(value, msgpack.ExtType)]:
                state[name] = _made_up(asked.type_name, name, state, attributes[name]["type"])
        return {"value": {"msgpack": msgpack.packb(state)}}

    def _computed(self, resource: str) -> list[str]:
        return [name for name, one in self._resources[resource]["attributes"].items() if one.get("computed")]


def _block(told: Object) -> Object:
    attributes = [
        {"name": name, "type": json.dumps(one["type"]).encode(), **{key: one[key] for key in one if key != "type"}}
        for name, one in told["attributes"].items()
    ]
    nested = [
        {"type_name": name, "block": _block(one), "nesting": LIST, "min_items": one["min"], "max_items": one["max"]}
        for name, one in told.get("blocks", {}).items()
    ]
    return {"attributes": attributes, "block_types": nested}


def _made_up(resource: str, name: str, state: Object, kind: Any) -> Any:
    """What Google would say; for all but names that others are told, any value of the right kind."""
    if resource == "google_service_account" and name in ("email", "member", "name"):
        email = f"{state['account_id']}@{state['project']}.iam.gserviceaccount.com"
        forms = {"member": f"serviceAccount:{email}", "name": f"projects/{state['project']}/serviceAccounts/{email}"}
        return forms.get(name, email)
    if resource == "google_project_iam_custom_role" and name == "name":
        return f"projects/{state['project']}/roles/{state['role_id']}"
    return {"string": f"{resource}.{name}", "number": 1, "bool": False}.get(str(kind), [])
