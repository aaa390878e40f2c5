"""How does a thread end a program whose own thread may never come back? With an account for its runner."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from dataclasses import asdict
from pathlib import Path

from prefect_tpu.infra import contract
from prefect_tpu.infra.contract import Env, ExitCode, ProgramError, Scratch
from prefect_tpu.infra.scratch import keep_first


def account_for(error: Exception, *, is_our_fault: bool) -> ExitCode:
    """Say that this process ends as if its program had raised the error where it stands now; with which code it then
    must leave. Whatever the program itself says later, as that a peer is lost, does not count any more.

    is_our_fault: whether it began on this host; else another one's account names the cause.
    """
    stack = where_the_program_stands()
    name, text = type(error).__name__, str(error)
    with contextlib.suppress(Exception):  # the program may have closed it
        sys.stderr.write(f"{stack}{name}: {text}\n")
        sys.stdout.flush()
        sys.stderr.flush()
    code = ExitCode.PROGRAM_RAISED if is_our_fault else ExitCode.LOST_PEER
    if place := os.environ.get(Env.REGION) or os.environ.get(Env.SCRATCH):
        account = {
            "exit_code": code,
            "error": asdict(ProgramError(type=name, message=text, traceback=stack)),
            "lost_peer": not is_our_fault,
        }
        with contextlib.suppress(OSError):  # a full disk; the exit code still tells
            keep_first(Path(place, Scratch.OUTCOME), contract.write_json(account))
    return code


def where_the_program_stands() -> str:
    """The stack of the program's own thread, as a traceback shows it."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return "".join(["Where this host stood (most recent call last):\n", *traceback.format_stack(frame)])
