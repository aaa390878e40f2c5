"""How does a program's process end, once it has said how it went?"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import traceback

from prefect_tpu.infra.contract import ExitCode

PATIENCE = 5.0  # seconds for threads that a program leaves behind


def leave(code: int, patience: float = PATIENCE) -> None:
    """After a success by the usual exit, which lets peers finish; after anything else at once.

    JAX's exit handler waits minutes for peers that may be dead.
    """
    _flush()
    if code == ExitCode.DONE:
        _leave_threads_behind(patience)
        sys.exit(0)
    if code == ExitCode.PREEMPTED:
        _shut_down_jax()
    os._exit(code)


def leave_as_fork(error: BaseException | None) -> None:
    """With the code that a script's child would have, and without the exit handlers, which are its parent's to run."""
    code = error.code if isinstance(error, SystemExit) else int(error is not None)
    with contextlib.suppress(Exception):  # the program may have closed it
        if error is not None and not isinstance(error, SystemExit):
            traceback.print_exception(error)
    _flush()
    os._exit((code or 0) & 0xFF if isinstance(code, int | None) else 1)


def _leave_threads_behind(patience: float) -> None:
    """Python's exit waits for threads first and runs exit handlers then: from that moment they may take their time."""
    are_through = threading.Event()
    atexit.register(are_through.set)  # the last that is registered is the first that runs
    threading.Thread(target=_give_up, args=(are_through, patience), name="leaving", daemon=True).start()


def _give_up(are_through: threading.Event, patience: float) -> None:
    if are_through.wait(patience):
        return
    main = threading.main_thread()
    names = ", ".join(repr(thread.name) for thread in threading.enumerate() if thread is not main and not thread.daemon)
    with contextlib.suppress(Exception):  # the program may have closed it
        sys.stderr.write(
            f"prefect-tpu: the program has returned, and threads of it still run after {patience:g} s: {names}. They"
            " are left behind; join them before you return, or make them daemons.\n"
        )
    atexit._run_exitfuncs()  # peers need JAX's
    _flush()
    os._exit(ExitCode.DONE)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _shut_down_jax() -> None:
    """All hosts leave together after a preemption; the leader must not take the coordinator away first."""
    jax = sys.modules.get("jax")
    if jax is not None:
        with contextlib.suppress(Exception):
            jax.distributed.shutdown()
