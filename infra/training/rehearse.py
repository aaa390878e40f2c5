"""How does a drill strike? Once in a job's life, on one host, at a step that the program reports."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.drills import Drill, DrillFailure, DrillKind, Moment, parse_drill
from prefect_tpu.infra.storage import open_storage
from prefect_tpu.infra.training.context import Context


class Rehearsal:
    """The drills that may still strike this host."""

    def __init__(self, here: Context | None) -> None:
        self._here = here
        self._waiting: dict[int, Drill] = {}
        if here is not None:
            drills = enumerate(map(parse_drill, here.plan.drills))
            self._waiting = {index: drill for index, drill in drills if drill.host == here.host}

    def strike(self, step: int, prepare: Callable[[], None]) -> None:
        """Strike what is due at `step`, after `prepare` and after a create-only note that it has struck."""
        if not self._waiting or self._here is None:
            return
        for index, drill in [
            (i, d) for i, d in self._waiting.items() if d.is_due(Moment.STEP, step, self._here.plan.attempt)
        ]:
            del self._waiting[index]
            if _claim(self._here, index, drill, step):
                prepare()
                _strike(drill, step, self._here)


def _claim(here: Context, index: int, drill: Drill, step: int) -> bool:
    note = contract.write_json({"drill": str(drill), "attempt": here.plan.attempt, "step": step})
    return open_storage(here.plan.output).put_if_absent(layout.drill(index), note)


def _strike(drill: Drill, step: int, here: Context) -> None:
    if drill.kind is DrillKind.PREEMPT:
        os.kill(here.runner, signal.SIGTERM)
    elif drill.kind is DrillKind.KILL:
        os.kill(here.runner, signal.SIGKILL)
        os.killpg(0, signal.SIGKILL)  # the program's own group, this process too
    else:
        raise DrillFailure(f"drill {drill} struck at step {step}; this failure was asked for")
