"""`prefect_tpu.champion(model)`: which model is to be used now?"""

from __future__ import annotations

import os

from prefect_tpu.infra.errors import NoSuchJob
from prefect_tpu.infra.models.records import Champion
from prefect_tpu.infra.models.registry import find_registry
from prefect_tpu.infra.request import default_output


def champion(model: str, output: str | os.PathLike[str] | None = None) -> Champion:
    """The version of a model that was promoted last, or that somebody went back to.

    Args:
        model: its name, as the flow `retrain` was given it.
        output: folder of all jobs; `$PREFECT_TPU_OUTPUT` or the user's data directory by default.

    Raises:
        NoSuchJob: there is no such model, or it has no champion yet.
        PlatformError: the output cannot be read.
    """
    registry = find_registry(default_output() if output is None else os.fspath(output), model)
    found = registry.champion()
    if found is None:
        raise NoSuchJob(
            f"Model {model!r} has no champion yet: `prefect-tpu models show {model}` says what became of it."
        )
    return found
