"""`python -P -m prefect_tpu.infra.compiler.child`: the process that runs the program up to its step and asks the
compiler.

Standard input: a line of JSON that says the target, then a line for each question. Standard output: a line of JSON for
each of them. Whatever the program, JAX and libtpu print goes to standard error, which is a log.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading
from pathlib import Path
from typing import IO, Any

from prefect_tpu.infra.compiler.answering import Answering
from prefect_tpu.infra.compiler.question import Question, Target
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.host.command import die_with_parent


def main() -> None:
    """Answer until nobody asks any more."""
    _end_with_asker()
    questions, answers = _own_streams()
    said = json.loads(questions.readline())
    answering = Answering(Target.from_json(said["target"]), Path(said["scratch"]), said["versions"])
    for line in questions:
        _say(answers, answering.answer(Question.from_json(json.loads(line))))
    os._exit(0)  # threads of the program may still run, and nobody needs them


def _end_with_asker() -> None:
    """Whoever asks may be killed: then this process goes, and with it all that the program has started."""
    try:
        asker = os.pidfd_open(int(os.environ[Env.PARENT]))
    except OSError:  # it is dead, or this machine cannot wait for it
        die_with_parent()
        return
    if os.getppid() != int(os.environ[Env.PARENT]):
        os._exit(1)
    threading.Thread(target=_end_after, args=(asker,), daemon=True).start()


def _end_after(asker: int) -> None:
    select.select([asker], [], [])
    os.killpg(0, signal.SIGKILL)


def _own_streams() -> tuple[IO[str], IO[str]]:
    """Standard input and output for us alone: the program reads nothing, and what it prints goes to the log."""
    questions, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return questions, answers


def _say(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
