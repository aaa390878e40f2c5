"""Orchestrators for the tests, started quickly: Prefect is imported once, and each call is a fork of that.

Reads one JSON object a line, answers with the process id of the fork. A fork
calls `prefect_tpu.train` or `sweep` as a user's script does, and leaves how it went in a file.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

import prefect_tpu
import prefect_tpu.flows.retrain  # the import that takes long, before the first fork
import prefect_tpu.flows.sweep
import prefect_tpu.flows.train


def spread(width: int) -> complex:
    """A program that lives in the caller's own script, with a value that is no JSON."""
    return complex(width, prefect_tpu.info().hosts)


def main() -> None:
    assert len(os.listdir("/proc/self/task")) == 1, "a fork of a process with threads may hang"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel clears the dead away
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            carry_out(request)
            return
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def carry_out(request: dict[str, Any]) -> None:
    os.environ.update(request["environment"])
    with open(request["log"], "ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        outcome = call(request)
    except BaseException as exc:
        outcome = {"error": type(exc).__name__, "message": str(exc), "notes": getattr(exc, "__notes__", [])}
    Path(request["outcome"]).write_text(json.dumps(outcome))


def call(request: dict[str, Any]) -> dict[str, Any]:
    if request["retrains"]:
        return retrained(request["arguments"], request["flow_options"])
    arguments = {"program": spread, **request["arguments"]}
    if request["sweep"]:
        return prefect_tpu.sweep(**arguments).to_json()
    if request["as_flow"]:
        return prefect_tpu.flows.train.train(**arguments)  # type: ignore[no-any-return]
    result = asyncio.run(inside_loop(arguments)) if request["in_loop"] else prefect_tpu.train(**arguments)
    attempts = [attempt.number for attempt in result.attempts]
    value = result.value if isinstance(result.value, dict) else repr(result.value)
    return {"value": value, "state": result.state, "attempts": attempts}


def retrained(arguments: dict[str, Any], flow_options: dict[str, Any] | None) -> dict[str, Any]:
    if flow_options is None:
        data = {name: Path(place) for name, place in arguments["data"].items()}
        return {"value": prefect_tpu.retrain(**{**arguments, "data": data})}
    state = prefect_tpu.flows.retrain.retrain.with_options(**flow_options)(**arguments, return_state=True)
    said = {"type": state.type.value, "name": state.name, "message": state.message}
    return {**said, "value": state.result()} if state.is_completed() else said


async def inside_loop(arguments: dict[str, Any]) -> prefect_tpu.JobResult:
    """As in a cell of a notebook: a plain call in a thread that runs an event loop."""
    return prefect_tpu.train(**arguments)


if __name__ == "__main__":
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):  # every run's end would wait for its thread
        main()
