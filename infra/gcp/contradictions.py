"""Do the name of an accelerator and the settings of pods contradict each other?"""

from __future__ import annotations

from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.pods import PodSettings


def contradiction(name: str, shape: Slice, pods: PodSettings) -> str | None:
    """What to change, as a sentence; None where nothing is."""
    kind, _, reservation = (shape.capacity or "").partition("=")
    if kind == "queue" and not (pods.queue or pods.provisioning_request):
        return (
            f"Accelerator {name!r} waits in a queue, and none is named: give --queue of Kueue, or --pod"
            " provisioning_request=NAME."
        )
    if pods.reservation is None or kind in ("", "queue"):
        return None
    if kind != "reserved":
        return f"Accelerator {name!r} and the reservation {pods.reservation!r} contradict each other: leave one out."
    if reservation and reservation != pods.reservation:
        return f"Accelerator {name!r} names another reservation than {pods.reservation!r}: leave one of them out."
    return None
