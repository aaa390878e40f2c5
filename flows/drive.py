"""`python -m prefect_tpu.flows.drive FOLDER`: brings a job to its end, whether anybody waits for it or not.

Standard input has the job as it is asked for now. With nothing there the job is
driven as it was asked for, and an end that it has stays its end. The process
that was started answers with the number of the one that drives, and leaves.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from types import FrameType

from prefect_tpu.flows.streams import make_lasting
from prefect_tpu.infra.errors import NoSuchJob, PrefectTpuError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driving import drive_to_end, driving
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.storage import open_storage

log = logging.getLogger("prefect_tpu.driver")
FAILED, TERMINATED = 1, 143


def main(folder: str) -> int:
    """Drive the job of this folder. Returns the exit status; the log says the rest."""
    asked = sys.stdin.buffer.read()
    _let_go_of_the_caller()
    _ignore_terminals()
    make_lasting()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        result = _drive(folder, asked)
    except PrefectTpuError as exc:
        log.error("%s", exc)
        return FAILED
    log.info("%s after attempt %d", result, len(history.all_ended(open_storage(folder))))
    return 0


def _drive(folder: str, asked: bytes) -> str:
    job = SliceJob.from_json(asked) if asked else history.read_job(open_storage(folder))
    if job is None:
        raise NoSuchJob(f"There is no job in {folder}: it was moved or deleted.")
    log.info("process %d drives job %s", os.getpid(), job.name)
    with driving(job, folder, _tell, goes_on=bool(asked)) as driven:
        return drive_to_end(driven).state


def _tell(news: News) -> None:
    if news.text:
        log.info("attempt %d: %s" if news.attempt else "%.0s%s", news.attempt, news.text)


def _let_go_of_the_caller() -> None:
    """Go on as an orphan: the caller need not clear this process away, and whatever ends its children spares it."""
    sys.stdout.flush()
    if pid := os.fork():
        os.write(sys.stdout.fileno(), str(pid).encode())
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, sys.stdin.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.close(null)


def _ignore_terminals() -> None:
    """A terminal that closes or interrupts means others. What a handler ignores, unlike SIG_IGN, no host inherits."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    """The hosts save and leave; the job keeps no end, so whoever waits for it starts another driver."""
    sys.exit(TERMINATED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
