"""Hosts that are forks of one process, in which the frameworks are imported once: a start costs nothing.

Run as a program with the environment's Python, it takes a line of JSON for each host: which case, with which
environment, where its log and its outcome go. It answers with the process's number, and tells of each end.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import Any


def main() -> None:
    programs = importlib.import_module(sys.argv[1])
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    say({"ready": True})
    rest = b""
    while True:
        for ready in select.select([0, woken], [], [])[0]:
            raw = os.read(ready, 65536)
            if ready == woken:
                bury()
            elif not raw:
                return
            else:
                *lines, rest = (rest + raw).split(b"\n")
                for line in lines:
                    start(programs, json.loads(line))


def say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def bury() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def start(programs: Any, asked: dict[str, Any]) -> None:
    pid = os.fork()
    if pid:
        say({"started": pid})
        return
    code = 99
    try:
        code = run(programs, asked)
    finally:
        sys.stderr.flush()
        os._exit(code)


def run(programs: Any, asked: dict[str, Any]) -> int:
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    import prefect_tpu

    code = 0
    try:
        outcome: dict[str, Any] = {"value": getattr(programs, asked["case"])(**asked["keywords"])}
    except prefect_tpu.Preempted as exc:
        outcome, code = {"preempted": exc.step}, 81
    except BaseException as exc:
        traceback.print_exc()
        outcome, code = {"error": type(exc).__name__, "message": str(exc)}, 80
    Path(asked["outcome"]).write_text(json.dumps(outcome))
    return code


if __name__ == "__main__":
    main()
