"""Where everything of a job lies. This file owns the names; both sides use it.

Names are relative to the job's folder, `<output>/<job>/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST_JOB_NAME = 18
JOB_NAME = re.compile(rf"[a-z][a-z0-9-]{{0,{LONGEST_JOB_NAME - 1}}}")
# The jobs of a sweep's trials have its name, a hyphen and up to four digits.
SWEEP_NAME = re.compile(r"[a-z][a-z0-9-]{0,12}")
DATA_FOLDER = ".data"  # beside the jobs: staged data is shared by all jobs of an output
HEARTBEATS = ".drivers"  # beside the jobs: of processes that drive many of them
BUNDLES_FOLDER = ".bundles"  # beside the jobs: flows that travel as objects, with the files they bring
RESULTS_FOLDER = ".results"  # beside the jobs: what such flows return, written and read by Prefect
MODELS_FOLDER = ".models"  # beside the jobs: of models that are trained again and again
SWEEPS_FOLDER = ".sweeps"  # beside the jobs: a folder for each sweep, whose trials are jobs

SWEEP = "sweep.json"  # in the folder of a sweep: what was asked for
STUDY = "study"  # in the folder of a sweep: what is known of its trials, as Optuna writes it
CHIPS = "chips"  # in the folder of a sweep: which trial took or gave back how many chips, and who came to drive it
PRUNED = "pruned"  # in the folder of a sweep: the trials that were given up
JOB = "job.json"  # what was asked for
STOP = "stop.json"  # somebody wants the job stopped
LEASE = "lease"  # who drives the job, renewed while they do
RESULT = "result.json"  # how the job ended
ASKED_BY = "asked_by.json"  # the Prefect flow run that is to know how it goes; replaced by whoever asks again
REGION_KEY = "region-key"  # on this machine's disk only: for its owner alone, and made once in the job's life
SECRETS = "secrets.json"  # there too: variables of its hosts that are written nowhere else
SECRET_KEPT = "run_secret.json"  # a Secret of the job may be in its cluster; removed after it
ORPHANED = "orphaned.json"  # the flow run whose process was gone before its job's end; whoever drives the job tells it
WAITING = "waiting.json"  # what it waits for; replaced while it lasts, removed when it ends
PERMIT = "permit.json"  # which chips it may have, where somebody counts them; removed when they are given back
ATTEMPTS = "attempts"
CHECKPOINTS = "checkpoints"
REGIONS = "regions"
LEDGER = "ledger"
ROUNDS = "rounds"
DRILLS = "drills"
DRIVER_LOG = "driver.log"  # of a driver that nobody watches
PROFILE = "profile"  # of recorded steps, laid out as xprof reads them
COMPILATION_CACHE = "cache/jax"  # shared by all attempts
MODEL_CANDIDATES = "candidates"  # of a model: trainings that may become its champion, as they were begun
MODEL_HISTORY = "history"  # of a model: what became of them, a record each
MODEL_CHAMPION = "champion.json"  # of a model: which one to use; repeats what the newest record says
SEALED = ".sealed.json"  # how names of seals end, after the step
TEMPORARY = ".tmp-"  # how names begin of what is being written, beside what it will be


def numbered(names: Iterable[str], ending: str = "") -> list[int]:
    """The numbers of names such as `3` or, with an ending, `3.json`; lowest first. Other names are left out."""
    stems = (name.removesuffix(ending) for name in names if name.endswith(ending))
    return sorted(int(stem) for stem in stems if stem.isdecimal())


def attempt_name(job: str, attempt: int) -> str:
    """Name of an attempt's objects; at most 22 characters, which Pathways needs."""
    return f"{job}-{attempt}"


def payload(sha256: str) -> str:
    """The program's code, checked against the hash before a host uses it."""
    return f"payload/{sha256}/payload.zip"


def first_payload(code: str) -> str:
    """Which payload holds this function; create-only, for the same function is pickled otherwise each time."""
    return f"payload/{code}.first"


def pathways(attempt: int) -> str:
    """What Pathways itself keeps while an attempt runs; nobody else reads it."""
    return f"pathways/{attempt}"


def bundle(key: str) -> str:
    """A flow that travels as an object, beside the jobs of the output; or the archive of its files, by its own key."""
    return f"{BUNDLES_FOLDER}/{key}"


def data(sha256: str) -> str:
    """Staged data, beside the jobs of the output: read by all of them, never changed."""
    return f"{DATA_FOLDER}/{sha256}"


def sweep(name: str) -> str:
    """Everything of a sweep but its trials, beside the jobs of the output; its end is a `result.json` there."""
    return f"{SWEEPS_FOLDER}/{name}"


def trial_job(sweep: str, number: int) -> str:
    """Name of the job that a trial is."""
    return f"{sweep}-{number}"


def entry(folder: str, number: int) -> str:
    """Of `study` and `chips`: objects counted from 0, each written once and in its place."""
    return f"{folder}/{number}.json"


def pruned(trial: int) -> str:
    """In the folder of a sweep: a trial is given up, and why; create-only, before its job is asked to stop."""
    return f"{PRUNED}/{trial}.json"


def heartbeat(name: str) -> str:
    """Beside the jobs: written again and again by a process that drives many, whose leases point to it."""
    return f"{HEARTBEATS}/{name}"


def model(name: str) -> str:
    """Everything of a model, beside the jobs of the output."""
    return f"{MODELS_FOLDER}/{name}"


def evaluations(name: str) -> str:
    """The jobs that judge a model, in a folder of jobs of their own."""
    return f"{model(name)}/evaluations"


def model_candidate(number: int) -> str:
    """Of a model: a candidate as it was begun; create-only."""
    return f"{MODEL_CANDIDATES}/{number}.json"


def model_approval(number: int) -> str:
    """Of a model: what somebody said who was asked whether a candidate may be trained; create-only."""
    return f"{MODEL_CANDIDATES}/{number}.approval"


def model_asked(number: int) -> str:
    """Of a model: a record for each flow run that asks somebody about a candidate; create-only."""
    return f"{MODEL_CANDIDATES}/{number}.asked"


def model_entry(number: int) -> str:
    """Of a model: a record of its history; create-only, so that each is written for the history as it was."""
    return f"{MODEL_HISTORY}/{number}.json"


def model_told(number: int) -> str:
    """Of a model: automations were told of a record of its history; empty, create-only."""
    return f"{MODEL_HISTORY}/{number}.told"


def plan(attempt: int) -> str:
    """What was sent. Its create-only write makes the attempt."""
    return f"{ATTEMPTS}/{attempt}/plan.json"


def outcome(attempt: int) -> str:
    """How the attempt ended, as the launcher judged it; create-only."""
    return f"{ATTEMPTS}/{attempt}/outcome.json"


def verdict(attempt: int) -> str:
    """Why the attempt ends, before whatever of it still lives is ended; create-only."""
    return f"{ATTEMPTS}/{attempt}/verdict.json"


def hosts(attempt: int) -> str:
    """Everything that the hosts of one attempt wrote."""
    return f"{ATTEMPTS}/{attempt}/hosts"


def host(attempt: int, index: int) -> str:
    """Everything of one host of one attempt."""
    return f"{hosts(attempt)}/{index}"


def record(attempt: int, index: int) -> str:
    """How the host ended, in its own words."""
    return f"{host(attempt, index)}/record.json"


def started(attempt: int, index: int) -> str:
    """A runner's claim of its host; create-only, so that a host runs once."""
    return f"{host(attempt, index)}/started.json"


def scratch(attempt: int, index: int) -> str:
    """Where a host's program and its runner talk to each other."""
    return f"{host(attempt, index)}/scratch"


def progress(attempt: int, index: int) -> str:
    """How far the program is, where its scratch folder is on a disk of its own: replaced while it runs."""
    return f"{host(attempt, index)}/progress.json"


def log(attempt: int, index: int) -> str:
    """What the host's program wrote to its standard output and error; of a pod, the first part of it."""
    return f"{host(attempt, index)}/log"


def log_part(attempt: int, index: int, part: int) -> str:
    """A pod's log, in parts from 0: the last one is replaced as it grows, for nothing can be appended in a bucket."""
    return f"{log(attempt, index)}.{part}" if part else log(attempt, index)


def runner_log(attempt: int, index: int) -> str:
    """What the runner itself says, which is nothing unless it breaks."""
    return f"{host(attempt, index)}/runner.log"


def result(attempt: int, index: int) -> str:
    """What the host's program returned."""
    return f"{host(attempt, index)}/result"


def exception(attempt: int, index: int) -> str:
    """What a sent function raised on a host, pickled."""
    return f"{host(attempt, index)}/exception"


def stacks(attempt: int, index: int) -> str:
    """The stacks of a host's program when it stood still."""
    return f"{host(attempt, index)}/stacks.txt"


def silence(attempt: int, index: int) -> str:
    """What a host that reports no step any more does; replaced while it lasts, removed when it ends."""
    return f"{host(attempt, index)}/silence.json"


def checkpoints(attempt: int) -> str:
    """The only checkpoints that this attempt writes."""
    return f"{CHECKPOINTS}/{attempt}"


def checkpoint_seal(attempt: int, step: int) -> str:
    """Written after a checkpoint is whole: the list of its files with their sizes."""
    return f"{CHECKPOINTS}/{attempt}/{step}{SEALED}"


def region_checkpoints(region: str) -> str:
    """Of a region of a flow: apart from other regions', in a numbered folder for each time that it runs."""
    return f"{REGIONS}/{region}/{CHECKPOINTS}"


def claim(number: int) -> str:
    """Of a run outside a job: its folder below the checkpoints is taken; create-only, as seen from theirs."""
    return f"{number}/run.json"


def ledger(attempt: int, writer: str, sequence: int) -> str:
    """What happened when: an event a line; the launcher and each host write their own."""
    return f"{LEDGER}/{attempt}-{writer}-{sequence}.jsonl"


def host_ledger(attempt: int, index: int, sequence: int) -> str:
    """A host's part of the ledger; its first object says that its program has joined or reported."""
    return ledger(attempt, f"host{index}", sequence)


def recording(run: str, host: int) -> str:
    """Of one host in a window of steps that all hosts recorded; xprof shows what has one run's name as one."""
    return f"{PROFILE}/plugins/profile/{run}/host-{host}.xplane.pb"


def torch_recording(run: str, host: int) -> str:
    """The same of PyTorch's profiler, whose files Perfetto opens."""
    return f"{PROFILE}/{run}/host-{host}.pt.trace.json.gz"


def drill(index: int) -> str:
    """Written just before a drill strikes, so that each strikes once in a job's life."""
    return f"{DRILLS}/{index}.json"


def obeyed(index: int) -> str:
    """The note of a launcher's drill has had its effect: just before it ends a driver, and after a stockout's round."""
    return f"{DRILLS}/{index}.obeyed.json"


def round_end(last_attempt: int) -> str:
    """An earlier end of the job, kept when somebody ran it again."""
    return f"{ROUNDS}/{last_attempt}.json"
