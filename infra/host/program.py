"""`python -m prefect_tpu.infra.host.program`: the process in which the user's program runs.

Its parent, the runner, learns how it went from a file in the scratch folder,
written before anything that could hang: JAX's own exit waits for its peers.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from prefect_tpu.infra import contract
from prefect_tpu.infra.contract import Env, ExitCode, Payload, ProgramError, Scratch
from prefect_tpu.infra.drills import Moment
from prefect_tpu.infra.errors import CouldNotJoin, Preempted, WrongSlice
from prefect_tpu.infra.host import payload, values
from prefect_tpu.infra.host.command import become, die_with_parent
from prefect_tpu.infra.host.leaving import leave, leave_as_fork
from prefect_tpu.infra.host.locked_memory import allow_locked_memory
from prefect_tpu.infra.host.lost_peer import is_lost_peer, is_lost_worker, message
from prefect_tpu.infra.host.out_of_memory import is_out_of_memory
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.rehearsal import Rehearsal
from prefect_tpu.infra.scratch import answer_with_stacks, keep_first


def main() -> None:
    """Run the program of this host's plan and leave with the contract's code."""
    die_with_parent()
    scratch = Path(os.environ[Env.SCRATCH])
    place = Path(os.environ.get(Env.REGION) or scratch)  # where its code lies and what comes of it
    plan = HostPlan.from_json(Path(os.environ[Env.PLAN]).read_bytes())
    if plan.platform == "tpu":
        allow_locked_memory()
    try:
        _rehearse(plan)
        if plan.program.kind == "command":
            become(plan.program)
        outcome = _served(plan, scratch) if plan.program.kind == "flow" else _called(plan, scratch, place)
    except Preempted:
        outcome = {"exit_code": ExitCode.PREEMPTED}
    except SystemExit as exc:
        outcome = _left(exc, plan, place)
    except BaseException as exc:
        outcome = _raised(exc, plan, place)
    # A thread that knows why hosts part has said so already, and what followed of it is no news.
    kept = keep_first(place / Scratch.OUTCOME, contract.write_json(outcome))
    leave(contract.read_json(kept, "This program's outcome")["exit_code"])


def _served(plan: HostPlan, scratch: Path) -> dict[str, Any]:
    from prefect_tpu.infra.host.agent import serve  # of flows alone

    return serve(plan, int(os.environ[Env.HOST]), scratch)


def _called(plan: HostPlan, scratch: Path, place: Path) -> dict[str, Any]:
    answer_with_stacks(scratch)  # not of a command: what takes this process's place would not know
    with _forks_end_here():
        value = load(plan.program, place / payload.WORK)(**plan.program.params)
    return _done(value, place)


def _rehearse(plan: HostPlan) -> None:
    """Where a drill may strike before the program's first line."""
    host, runner, started = (os.environ[name] for name in (Env.HOST, Env.RUNNER, Env.STARTED))
    Rehearsal(plan, int(host), int(runner), float(started)).strike(Moment.START)


@contextlib.contextmanager
def _forks_end_here() -> Iterator[None]:
    """A child that the program forked, and that comes back from it, is not the program: its end is none of a host's."""
    own = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != own:
            leave_as_fork(sys.exception())


def load(program: Program, work: Path) -> Callable[..., Any]:
    """The function to call."""
    sys.path.insert(0, str(work))
    if program.kind == "function":
        return _unpickle(work)
    place, _, name = program.target.rpartition(":")
    module = _import_file(work / place) if program.kind == "file" else importlib.import_module(place)
    function = getattr(module, name, None)
    if not callable(function):
        raise AttributeError(f"{place} has no function {name!r} to run")
    return function  # type: ignore[no-any-return]


def _unpickle(work: Path) -> Callable[..., Any]:
    payload.check_versions(work)
    import cloudpickle  # the one dependency of a host, and only where a function was sent

    function = cloudpickle.loads((work / Payload.FUNCTION).read_bytes())
    if not (work / Payload.ARGUMENTS).exists():
        return function  # type: ignore[no-any-return]
    args, kwargs = cloudpickle.loads((work / Payload.ARGUMENTS).read_bytes())
    return partial(function, *args, **kwargs)


def _import_file(path: Path) -> Any:
    """Import a file under its own name, so that what it pickles can be found again."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise ModuleNotFoundError(f"{path.name} is not in the payload")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _done(value: Any, place: Path) -> dict[str, Any]:
    return {"exit_code": ExitCode.DONE, "result": values.keep_value(value, place / Scratch.VALUE)}


def _left(exc: SystemExit, plan: HostPlan, place: Path) -> dict[str, Any]:
    if exc.code in (None, 0):
        return _done(None, place)
    return _raised(exc, plan, place)


def _raised(exc: BaseException, plan: HostPlan, place: Path) -> dict[str, Any]:
    text = "".join(traceback.format_exception(exc))
    with contextlib.suppress(Exception):  # the program may have closed it
        sys.stderr.write(text)
    error = ProgramError(type=type(exc).__name__, message=_message(exc), traceback=text)
    lacks_memory = is_out_of_memory(exc)
    lost = isinstance(exc, CouldNotJoin) or (not lacks_memory and _has_lost_peer(plan, exc))
    kept = values.keep_exception(exc, place / Scratch.EXCEPTION) if plan.program.kind == "function" else None
    return {
        "exit_code": _code(exc, lost),
        "error": asdict(error),
        "lost_peer": lost,
        "out_of_memory": lacks_memory,
        **({} if kept is None else {"exception": kept}),
    }


def _has_lost_peer(plan: HostPlan, exc: BaseException) -> bool:
    """Whether it only tells that others have ended: other hosts, or with Pathways whoever has the chips."""
    return (plan.hosts > 1 and is_lost_peer(exc)) or (plan.workers > 0 and is_lost_worker(exc))


def _message(exc: BaseException) -> str:
    """What it says; of a mere number, that it was a way to leave."""
    if isinstance(exc, SystemExit) and isinstance(exc.code, int):
        return f"the program called sys.exit({exc.code})"
    return message(exc)


def _code(exc: BaseException, lost: bool) -> ExitCode:
    if isinstance(exc, WrongSlice):
        return ExitCode.WRONG_SLICE
    if isinstance(exc, payload.PayloadRefused):
        return ExitCode.PAYLOAD_REFUSED
    return ExitCode.LOST_PEER if lost else ExitCode.PROGRAM_RAISED


if __name__ == "__main__":
    main()
