"""What of a flow is sent to a slice? The flow itself and its tags: no bonds to a pool, no settings, no secrets."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import cloudpickle
from cloudpickle.cloudpickle import list_registry_pickle_by_value
from prefect.context import TagsContext
from prefect.flows import Flow

OURS = "prefect_tpu"
BONDS = frozenset(("work_pool", "job_variables", "worker_cls", "launcher", "include_files", "include_files_base_dir"))


def context() -> dict[str, Any]:
    """What the flow finds around it on the slice.

    Prefect would send all settings of the caller, with its API key, and they would replace those of the host.
    """
    tags = TagsContext.get().current_tags
    return {"tags_context": {"current_tags": tags} if tags else {}}


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
