"""How does a program that drives all chips alone find them? Pathways, as JAX sees it through its proxy."""

from __future__ import annotations

import importlib
import importlib.util

from prefect_tpu.infra.plan import HostPlan

_PACKAGE = "pathwaysutils"  # Google's; JAX alone does not know the proxy
PLATFORM = "proxy"


def initialize() -> None:
    """Make Pathways known to JAX, where the image has what that needs; it does nothing on another platform."""
    if is_known():
        importlib.import_module(_PACKAGE).initialize()


def is_known() -> bool:
    """Whether the image has what makes Pathways known to JAX."""
    return importlib.util.find_spec(_PACKAGE) is not None


def expected(plan: HostPlan, found: int) -> dict[str, object]:
    """What JAX must find: one process, and the devices of all slices, or of as many as must be there.

    What platform it calls them, and which of them belong together, is not known of Pathways: that is not checked.
    """
    each = plan.devices_per_host // plan.slices
    fewest = max(1, plan.slices - plan.elastic_slices)
    allowed = {each * slices for slices in range(fewest, plan.slices + 1)}
    return {"hosts": 1, "devices in all": found if found in allowed else plan.devices_per_host}


def advice() -> str:
    """What to do where JAX has no such platform."""
    if not is_known():
        return f"What the program runs in has JAX without Pathways: `pip install {_PACKAGE}` into the image."
    return "Look at the logs of the containers beside the program's in its pod."
