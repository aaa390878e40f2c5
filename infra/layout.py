"""Where everything of a job lies. One class owns the names; both sides use it.

Names are relative to the job's folder, `<output>/<job>/`.
"""

from __future__ import annotations

import re

JOB_NAME = re.compile(r"[a-z][a-z0-9-]{0,17}")
DATA_FOLDER = ".data"  # beside the jobs: staged data is shared by all jobs of an output

JOB = "job.json"
STOP = "stop.json"
LEASE = "lease"
RESULT = "result.json"
VALUE = "value"


def attempt_name(job: str, attempt: int) -> str:
    """Name of an attempt's objects; at most 22 characters, which Pathways needs."""
    return f"{job}-{attempt}"


def payload(sha256: str) -> str:
    return f"payload/{sha256}/payload.zip"


def first_payload(code: str) -> str:
    """Which payload holds this function; create-only, for the same function is pickled otherwise each time."""
    return f"payload/{code}.first"


def data(sha256: str) -> str:
    return f"{DATA_FOLDER}/{sha256}"


def attempts() -> str:
    return "attempts"


def plan(attempt: int) -> str:
    """What was sent. Its create-only write makes the attempt."""
    return f"attempts/{attempt}/plan.json"


def outcome(attempt: int) -> str:
    """How the attempt ended, as the launcher judged it; create-only."""
    return f"attempts/{attempt}/outcome.json"


def verdict(attempt: int) -> str:
    """Why the attempt ends, before whatever of it still lives is ended; create-only."""
    return f"attempts/{attempt}/verdict.json"


def host(attempt: int, index: int) -> str:
    return f"attempts/{attempt}/hosts/{index}"


def record(attempt: int, index: int) -> str:
    return f"{host(attempt, index)}/record.json"


def started(attempt: int, index: int) -> str:
    """A runner's claim of its host; create-only, so that a host runs once."""
    return f"{host(attempt, index)}/started.json"


def scratch(attempt: int, index: int) -> str:
    """Where a host's program and its runner talk to each other."""
    return f"{host(attempt, index)}/scratch"


def log(attempt: int, index: int) -> str:
    return f"{host(attempt, index)}/log"


def result(attempt: int, index: int) -> str:
    return f"{host(attempt, index)}/result"


def checkpoints(attempt: int) -> str:
    return f"checkpoints/{attempt}"


def checkpoint_seal(attempt: int, step: int) -> str:
    """Written after a checkpoint is whole: the list of its files with their sizes."""
    return f"checkpoints/{attempt}/{step}.sealed.json"


def ledger(attempt: int, writer: str, sequence: int) -> str:
    return f"ledger/{attempt}-{writer}-{sequence}.jsonl"


def drill(index: int) -> str:
    """Written just before a drill strikes, so that each strikes once in a job's life."""
    return f"drills/{index}.json"


def round_end(last_attempt: int) -> str:
    """An earlier end of the job, kept when somebody ran it again."""
    return f"rounds/{last_attempt}.json"
