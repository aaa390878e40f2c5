"""What does a job cost around its program: from the call to the end, and from the loss of a host to the next step?"""

from __future__ import annotations

from functools import partial

from ratios import Contender, Experiment
from sides import HOSTS, Sides

FEW_STEPS = 20  # of a job whose length does not matter
KILLED_AFTER, MORE = 40, 20  # steps before a host is killed, and after the restart


def overhead(sides: Sides, job_seconds: float) -> Experiment:
    steps = max(FEW_STEPS, round(job_seconds / sides.step_seconds()))
    return Experiment(
        against="the same processes, started by a bare script",
        other=partial(sides.bare, steps),
        contenders=(
            Contender(
                what="overhead of `prefect_tpu.train`",
                how=f"Called in a fresh interpreter, imports included, with a Prefect server running: a job of {HOSTS}"
                f" JAX processes and {steps} steps, about {job_seconds:.0f} s; wall time until the caller has ended."
                " The bare side trains with JAX and Orbax alone.",
                seconds=partial(sides.train, steps),
                goal=1.10,
            ),
            Contender(
                what="overhead of `prefect-tpu run`",
                how="The same job from the shell, which drives without Prefect.",
                seconds=partial(sides.shell, steps),
                goal=1.10,
            ),
        ),
        warm_up=False,  # a calibration ran already
    )


def recovery(sides: Sides) -> Experiment:
    saved = sides.saved_by_bare(KILLED_AFTER)
    return Experiment(
        against="a bare restart",
        other=partial(sides.restart, saved, KILLED_AFTER, MORE),
        contenders=(
            Contender(
                what="recovery",
                how="From the SIGKILL of a host, its runner and its program, to the first new step of the next attempt"
                " ÷ from the start of the same bare processes to their first step. Both restore a checkpoint and find"
                " their compilation in the cache.",
                seconds=partial(sides.recovery, KILLED_AFTER, MORE),
                goal=1.15,
            ),
        ),
    )


def cold_start(sides: Sides) -> Experiment:
    return Experiment(
        against="the same with a server running",
        other=partial(sides.train, FEW_STEPS),
        contenders=(
            Contender(
                what="cold start without a server",
                how=f"A job of {FEW_STEPS} steps in a home that Prefect has never seen: it makes a database and starts"
                " a server for the run.",
                seconds=partial(sides.train_without_server, FEW_STEPS),
            ),
        ),
        warm_up=False,
    )
