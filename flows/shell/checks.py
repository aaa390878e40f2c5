"""How long may the checks of `prefect-tpu doctor` take, all together?"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from prefect_tpu.infra.checks import Check, Look, warn

PATIENCE_SECONDS = 15.0  # for all checks together: a disk or a server that does not answer must not hold a person up


THREAD = "doctor looks"


def is_looking() -> bool:
    """Whether a check still hangs: an interpreter that ends meanwhile may abort in the midst of its libraries."""
    return any(thread.name == THREAD for thread in threading.enumerate())


def look_at_all(looks: Mapping[str, Look], patience: float = PATIENCE_SECONDS) -> Sequence[Check]:
    """All checks side by side, in their order; one that does not answer in time, or breaks, says so itself."""
    answers: dict[str, Check] = {}
    done = {name: threading.Event() for name in looks}

    def answer(name: str, look: Look) -> None:
        try:
            answers[name] = look()
        except Exception as exc:  # whatever a strange machine makes of a check, the others are worth having
            answers[name] = warn(name, f"could not be looked at: {exc}", "Look at it yourself.")
        done[name].set()

    give_up = time.monotonic() + patience
    for name, look in looks.items():  # threads that end with this process, whatever they wait for
        threading.Thread(target=answer, args=(name, look), name=THREAD, daemon=True).start()
    for event in done.values():
        event.wait(max(0.0, give_up - time.monotonic()))
    late = f"did not answer within {patience:.0f} s"
    advice = "Ask again: a busy machine is slow. Where it repeats, look whether its disk or server hangs."
    return [answers.get(name) or warn(name, late, advice) for name in looks]
