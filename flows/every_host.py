"""`prefect_tpu.every_host(function)(…)`: in a flow on a slice, run a function on each of its hosts."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import re
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Literal, NoReturn, ParamSpec, TypeVar, overload

from prefect_tpu.infra import packing, pickling, regions, returned
from prefect_tpu.infra.contract import Env, Payload, ProgramError, ResultInfo
from prefect_tpu.infra.errors import PlatformError, RegionFailed, UsageError
from prefect_tpu.infra.fingerprint import fingerprint
from prefect_tpu.infra.pickling import Arguments
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.regions import Channel, Message

P = ParamSpec("P")
R = TypeVar("R")
AGENT_SECONDS = 60.0  # the agent is on this host: it listens before the flow begins
ENDING_SECONDS = 120.0  # for a host whose agent is gone to end the flow too
log = logging.getLogger(__name__)
_packing = threading.Lock()  # what travels by value is said to the whole process: tasks may call at once


@overload
def every_host(function: Callable[P, R], /, gather: Literal[False] = ...) -> Callable[P, R]: ...


@overload
def every_host(function: Callable[P, R], /, gather: Literal[True]) -> Callable[P, list[R]]: ...


def every_host(function: Callable[..., Any], /, gather: bool = False) -> Callable[..., Any]:
    """Make calls of a function run on every host of the slice that this flow is on, and return the leader's value.

    A call is a region: a fresh process on each host, in which `join`, `mesh`, `shard`, `report` and `checkpoints` work
    as in any program of a job, and JAX sees the whole slice. Arguments and value are pickled, and the code of your own
    that the function imports goes with it. Regions of a flow run one at a time: a second one waits for the first. Call
    it in a flow or in a task of it; from asynchronous code by `asyncio.to_thread`.

    Where a region ends because a host is lost or told to leave, the call does not come back: the flow is ended as it
    stands and runs again on another slice, where persisted tasks are not run again, and a region that is called with
    the same function and arguments goes on from its newest checkpoint. Calls that are the same are told apart by their
    order.

    Outside a slice, on a laptop say, the function runs here, in this process, as on a slice of one host.

    Args:
        function: a plain function.
        gather: return a list with one value per host, the leader's first.

    Returns:
        The function that runs such a region.

    Raises:
        UsageError: the function or an argument cannot be sent, or a region was called in a region.
        RegionFailed: the function failed on a host. Where its exception itself came back, that is raised, with the
            traceback of the host as a note.
        PlatformError: the agent of this host, which starts regions, does not answer.
    """
    _check(function)

    @wraps(function)
    def on_every_host(*args: Any, **kwargs: Any) -> Any:
        plan = _plan()
        if plan is None:
            value = function(*args, **kwargs)
            return [value] if gather else value
        return _Region(plan, function, Arguments(args=args, kwargs=kwargs)).run(gather=gather)

    return on_every_host


def _check(function: Callable[..., Any]) -> None:
    if type(function).__module__.partition(".")[0] == "prefect":  # a task or a flow, which has its own way to run
        raise UsageError(
            f"every_host was given the {type(function).__name__.lower()} {getattr(function, 'name', function)!r}: give"
            " it a plain function, and call every_host inside the task or flow."
        )
    pickling.check_callable(function)


def _plan() -> HostPlan | None:
    """The plan of the slice that this flow is on; None outside one, and on hosts of a job that runs no flow."""
    path = os.environ.get(Env.PLAN)
    if not path:
        return None
    if Env.REGION in os.environ:
        raise UsageError(
            "every_host was called inside a region, which runs on every host already: call the function itself."
        )
    plan = HostPlan.from_json(Path(path).read_bytes())
    if plan.regions is None:
        raise UsageError(
            f"every_host was called by the program of job {plan.job!r}, which runs on every host already: call the"
            " function itself. Regions are for flows of a `tpu-slice` work pool."
        )
    return plan


class _Region:
    """One call."""

    def __init__(self, plan: HostPlan, function: Callable[..., Any], arguments: Arguments) -> None:
        self._plan, self._name, self._secret = plan, pickling.name_of(function), _region_key()
        with _found_there(function):
            self._payload = packing.pack_function(function, {}, arguments).payload or b""
        self._key = _key(self._name, self._payload)

    def run(self, *, gather: bool) -> Any:
        channel = self._reach()
        try:
            facts = {"name": self._name, "key": self._key, "gather": gather}
            with _agent_gone():
                channel.send(Message(kind="begin", facts=facts, parts=(self._payload,)))
            values = self._hear(channel)
        finally:
            channel.close()  # where the flow does not wait any more, the region ends
        return values if gather else values[0]

    def _reach(self) -> Channel:
        hello = {"role": "flow", "mark": self._plan.mark}
        return regions.call(self._plan.regions or "", self._secret, hello, AGENT_SECONDS)

    def _hear(self, channel: Channel) -> list[Any]:
        """The values, by host."""
        values: list[Any] = []
        while True:
            with _agent_gone():  # and nothing more: what the function raised may be such an error too
                message = channel.receive()
            match message.kind:
                case "waits":
                    log.info("Region %s waits until region %s has ended.", self._name, message.facts["for"])
                case "began":
                    log.info("Region %s begins on %s hosts.", self._name, self._plan.hosts)
                case "value":
                    info = message.facts["result"]
                    values.append(None if info is None else returned.value(message.parts[0], ResultInfo(**info)))
                case "returned":
                    return values
                case "raised":
                    _raise(self._name, message)
                case kind:
                    raise PlatformError(
                        f"The hosts of region {self._name} say {kind!r}, which this prefect-tpu does not know:"
                        " let the image of the hosts and the flow's code have the same version."
                    )


def _region_key() -> str:
    key = os.environ.get(Env.REGION_KEY)
    if not key:
        raise UsageError(
            f"The flow has no {Env.REGION_KEY} in its environment, by which the hosts of its slice know it: something"
            " between prefect-tpu and the flow took it away. Start what calls every_host with the flow's own"
            " environment."
        )
    return key


def _raise(name: str, message: Message) -> NoReturn:
    """What the function raised on a host, itself where it came back."""
    facts, host = message.facts, message.facts["host"]
    failed = RegionFailed(f"Region {name!r} failed: host {host} {facts['told']}")
    error = ProgramError(**facts["error"]) if facts["error"] else None
    note = f"Raised on host {host}:\n{error.traceback.rstrip()}" if error else ""
    itself = returned.exception(message.parts[0], note) if facts["exception"] and error else None
    if itself is not None:
        raise itself from failed
    if note:
        failed.add_note(note)
    raise failed


@contextmanager
def _agent_gone() -> Iterator[None]:
    """Whoever starts regions on this host has ended, and ends the flow with it: it must neither return nor raise."""
    try:
        yield
    except OSError as exc:
        time.sleep(ENDING_SECONDS)
        raise PlatformError(
            f"The agent of this host, which starts the regions of the flow, is gone ({exc}), and the flow lives on."
            " Look at the log of host 0."
        ) from exc


@contextmanager
def _found_there(function: Callable[..., Any]) -> Iterator[None]:
    """Of a module that no import finds by its name, as Prefect loads a second file of one name, all goes by value."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if module is None or file is None or module.__name__ == "__main__" or _is_named_after(module.__name__, Path(file)):
        yield
        return
    import cloudpickle

    with _packing:
        cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            cloudpickle.unregister_pickle_by_value(module)


def _is_named_after(name: str, file: Path) -> bool:
    return name.rpartition(".")[2] == (file.parent.name if file.stem == "__init__" else file.stem.partition(".")[0])


def _key(name: str, payload: bytes) -> str:
    """What tells a region from others of its flow, in every attempt alike: its function and what it is called with."""
    with zipfile.ZipFile(io.BytesIO(payload)) as files:
        said = "".join(fingerprint(files.read(part)) for part in (Payload.FUNCTION, Payload.ARGUMENTS))
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:40]
    return f"{readable}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"
