"""What of a flow is sent to a slice? The flow itself and its tags: no bonds to a pool, no settings, no secrets."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

import cloudpickle
from cloudpickle.cloudpickle import list_registry_pickle_by_value
from prefect.context import TagsContext
from prefect.flows import Flow
from pydantic import BaseModel

from prefect_tpu.infra.errors import UsageError

OURS = "prefect_tpu"
BONDS = frozenset(("work_pool", "job_variables", "worker_cls", "launcher", "include_files", "include_files_base_dir"))


def context() -> dict[str, Any]:
    """What the flow finds around it on the slice.

    Prefect would send all settings of the caller, with its API key, and they would replace those of the host.
    """
    tags = TagsContext.get().current_tags
    return {"tags_context": {"current_tags": tags} if tags else {}}


def parameters_of(flow: Flow[..., Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters as Prefect keeps them with a run, which is how they arrive.

    Raises `UsageError` for one that would arrive as something else: Prefect keeps a lock, an array and bytes as the
    name of their type, and any object as its attributes.
    """
    sent = flow.serialize_parameters(parameters)
    for name, value in parameters.items():
        is_named = sent[name] == f"<{type(value).__name__}>" and not isinstance(value, str)
        if is_named or _is_taken_apart(value, sent[name]):
            raise UsageError(
                f"Parameter {name!r} of flow {flow.name!r} is of type {type(value).__name__}, which does not travel:"
                " give numbers, texts, lists or pydantic models, and let the flow load or make what is larger."
            )
    return sent


def _is_taken_apart(value: Any, sent: Any) -> bool:
    has_fields = is_dataclass(value) or isinstance(value, BaseModel | Mapping)
    return isinstance(sent, dict) and not has_fields


def reduced(attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    """As `__reduce_ex__` answers: a plain flow with these attributes, less what binds it to a pool.

    Prefect sends packages by value that are installed from a folder. On a host ours is there already, and a second copy
    of its exceptions would not be caught by the first.
    """
    plain: Flow[..., Any] = Flow.__new__(Flow)
    plain.__dict__.update({name: value for name, value in attributes.items() if name not in BONDS})
    with _ours_by_name():
        return cloudpickle.loads, (cloudpickle.dumps(plain),)


@contextlib.contextmanager
def _ours_by_name() -> Iterator[None]:
    ours = [sys.modules[name] for name in list_registry_pickle_by_value() if name.split(".")[0] == OURS]
    for module in ours:
        cloudpickle.unregister_pickle_by_value(module)
    try:
        yield
    finally:
        for module in ours:
            cloudpickle.register_pickle_by_value(module)
