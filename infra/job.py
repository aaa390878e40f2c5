"""The noun everything is about: `SliceJob`, one program to run on a slice until it is done."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.errors import Failure, UsageError
from prefect_tpu.infra.job_checks import check_count, check_environment, check_json, check_positive
from prefect_tpu.infra.meshes import parse_mesh
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.windows import parse_window

PROGRAM_KINDS = ("function", "module", "file", "command", "flow")
# How a job is carried out, not what it trains: once it has ended it may go on with other ones.
SETTINGS = frozenset(
    {
        "accelerators",
        "slices",
        "mesh",
        "pods",
        "max_preemptions",
        "max_failures",
        "checkpoint_every",
        "grace",
        "orphan_after",
        "join_timeout",
        "provision_timeout",
        "deadline",
        "stall_timeout",
        "drills",
        "profile",
    }
)
Json = Any  # what `json` reads and writes


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What each host runs.

    kind: `function` (pickled in the payload), `module` (`pkg.mod:function`), `file`
        (`path.py:function`, the file travels in the payload), `command` (argument list) or `flow` (the same list,
        which runs a Prefect flow: on the leader alone, while the other hosts wait for its regions).
    target: the function's name, `pkg.mod:function`, `path.py:function`, or the command's first word.
    arguments: what follows the command's first word.
    params: keyword arguments of the function, as JSON.
    payload: SHA-256 of the zip with the code, or None where nothing travels.
    default_steps: of a parameter `steps` that is not in `params`; for people who watch, and no part of what is asked.
    """

    kind: str
    target: str
    arguments: tuple[str, ...] = ()
    params: dict[str, Json] = field(default_factory=dict)
    payload: str | None = None
    default_steps: int | None = field(default=None, compare=False)

    @property
    def steps(self) -> int | None:
        """How many steps it takes, where it has a parameter of that name and that is a number of steps."""
        steps = self.params.get("steps", self.default_steps)
        return steps if isinstance(steps, int) and not isinstance(steps, bool) and steps > 0 else None

    def __post_init__(self) -> None:
        if self.kind not in PROGRAM_KINDS:
            raise UsageError(f"Program kind {self.kind!r} is not one of {', '.join(PROGRAM_KINDS)}.")
        check_json(self.target, self.params)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Program:
        with contract.reading("The program of a job"):
            return cls(**{**data, "arguments": tuple(data["arguments"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceJob:
    """One program, on what, until when. Complete at birth; equal jobs write equal `job.json`.

    name: of the job, and of its folder in the output.
    program: what each host runs.
    accelerators: in order of preference; the first that is to be had is used.
    backend: where slices come from.
    slices: how many slices of an accelerator the program spans.
    pods: how hosts run in a cluster; None on backends without one.
    dialect: what numbers in accelerator names count, `google` or `chips`.
    data: name → SHA-256 of staged data.
    start_from: the model that the first attempt starts with, as `start_points` reads it; "" for a fresh one.
    mesh: what `prefect_tpu.mesh()` gives a program that says none itself, such as `{"data": -1, "tp": 4}`; "" for one
        axis `data`.
    env: plain environment variables of the program; never secrets.
    max_preemptions: restarts without a newer checkpoint before the job is given up.
    max_failures: restarts after a program error.
    checkpoint_every: seconds between two checkpoints.
    grace: seconds that a host has to save and leave once it is told to; then it is killed.
    orphan_after: seconds after which hosts that nobody drives save and leave.
    join_timeout: seconds within which all hosts must have met.
    provision_timeout: seconds without a slice before the job is given up; one that keeps it waiting for as long gives
        its turn to an accelerator, cluster or zone that was not tried. One without capacity does so at once.
    deadline: seconds from the start of an attempt to its end, or None.
    stall_timeout: seconds without a step on any host before the attempt is ended, or None. Ten times as long while a
        host compiles or saves. A host counts once its program has joined or reported; one that does neither is not
        watched, and only a deadline ends it.
    drills: failures to rehearse, such as `preempt@step=40,host=2`.
    profile: which steps of each attempt all hosts record, such as `skip=10,steps=5`; "" for none.
    """

    name: str
    program: Program
    accelerators: tuple[str, ...]
    backend: str = "local"
    slices: int = 1
    pods: PodSettings | None = None
    dialect: str = "google"
    data: dict[str, str] = field(default_factory=dict)
    start_from: str = ""
    mesh: str = ""
    env: dict[str, str] = field(default_factory=dict)
    max_preemptions: int = 10
    max_failures: int = 0
    checkpoint_every: float = 600.0
    grace: float = 30.0
    orphan_after: float = 60.0
    join_timeout: float = 120.0
    provision_timeout: float = 86_400.0
    deadline: float | None = None
    stall_timeout: float | None = 1_800.0
    drills: tuple[str, ...] = ()
    profile: str = ""

    def __post_init__(self) -> None:
        check_name(self.name)
        if not self.accelerators or not all(isinstance(name, str) for name in self.accelerators):
            raise UsageError(f"Job {self.name!r} names no accelerator: give one, such as 'v6e-16' or 'cpu'.")
        for name in ("checkpoint_every", "grace", "orphan_after", "join_timeout", "provision_timeout"):
            check_positive(name, getattr(self, name))
        for name in ("deadline", "stall_timeout"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if self.mesh:
            parse_mesh(self.mesh)
        if self.profile:
            parse_window(self.profile)
        check_environment(self.env)
        if both := set(self.env) & set(self.pods.secrets if self.pods else ()):
            raise UsageError(f"env and the secrets of pods both have {min(both)!r}: leave it out of env.")
        if self.pods and self.pods.pathways and self.backend != "pathways":
            raise UsageError(
                f"Backend {self.backend!r} knows nothing of Pathways, and pathways.… was given: leave it out, or name"
                " the backend 'pathways'."
            )
        for name in ("max_preemptions", "max_failures", "slices"):
            check_count(name, getattr(self, name))
        if self.slices < 1:
            raise UsageError(f"slices is {self.slices}: a job runs on one slice at least.")

    def to_json(self) -> bytes:
        return contract.write_json(asdict(self))

    @classmethod
    def from_json(cls, raw: bytes | str) -> SliceJob:
        data = contract.read_json(raw, "job.json")
        known = {f.name for f in fields(cls)}
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
        }
        with contract.reading("job.json"):
            return cls(
                **{key: value for key, value in values.items() if key in known - {"program", "pods"}},
                program=Program.from_json(data["program"]),
                pods=PodSettings.from_json(data["pods"]) if data.get("pods") else None,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSummary:
    """One attempt as people and scripts see it; times are the launcher's clock, in seconds since the epoch.

    number: counted from 1 over all rounds.
    accelerator, cluster, zone: what it ran on, and where, as far as the job had a choice.
    outcome: `succeeded`, or the kind of its failure.
    failure: why it ended without the result.
    first_step, last_step: that any host reported.
    saved_step: the newest whose checkpoint is sealed.
    instead_of: which better liked slices were not to be had, and why.
    places: the machines, in the platform's names, on which it lost hosts.
    slow_host: which host kept the others waiting, and for how long, as a sentence; None where none did.
    """

    number: int
    accelerator: str
    started: float
    ended: float | None
    outcome: str
    failure: Failure | None
    first_step: int | None = None
    last_step: int | None = None
    saved_step: int | None = None
    instead_of: str | None = None
    places: tuple[str, ...] = ()
    slow_host: str | None = None
    cluster: str | None = None
    zone: str | None = None

    def to_json(self) -> dict[str, Json]:
        return {**_shallow(self), "failure": self.failure and self.failure.to_json(), "places": list(self.places)}

    @classmethod
    def from_json(cls, data: dict[str, Json]) -> AttemptSummary:
        with contract.reading("The summary of an attempt"):
            known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
            cause = data["failure"] and Failure.from_json(data["failure"])
            return cls(**{**known, "failure": cause, "places": tuple(data.get("places", ()))})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """How a job ended.

    job: its name.
    state: `succeeded`, `failed` or `stopped`.
    attempts: of this round: since somebody last ran the job again.
    output: the job's folder.
    value: what the leader's program returned.
    failure: of the last attempt; None where it succeeded.
    """

    job: str
    state: str
    attempts: tuple[AttemptSummary, ...]
    output: str
    value: Json
    failure: Failure | None

    def to_json(self) -> dict[str, Json]:
        """The object that `run --json` prints as its last line."""
        return {
            **_shallow(self),
            "attempts": [attempt.to_json() for attempt in self.attempts],
            "failure": self.failure and self.failure.to_json(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Json]) -> JobResult:
        known = {f.name for f in fields(cls)}
        with contract.reading("The result of a job"):
            return cls(
                **{
                    **{key: value for key, value in data.items() if key in known},
                    "attempts": tuple(AttemptSummary.from_json(attempt) for attempt in data["attempts"]),
                    "failure": data["failure"] and Failure.from_json(data["failure"]),
                }
            )


def check_name(name: str) -> str:
    """The name itself. Raises `UsageError` where it cannot name Kubernetes objects with an attempt's number."""
    if not isinstance(name, str) or not layout.JOB_NAME.fullmatch(name):
        raise UsageError(
            f"Job name {name!r} is not usable: start with a letter a-z, then at most 17 of a-z, 0-9 and '-'."
        )
    return name


def name_from_run(flow_run_id: str) -> str:
    """The name of a job that was given none: `t-` and the last 12 hex digits of its flow run's id.

    The first 12 are the millisecond in which the run was made, and a schedule makes many in one.
    """
    return f"t-{flow_run_id.replace('-', '')[-12:]}"


def with_payload(program: Program, sha256: str) -> Program:
    return replace(program, payload=sha256)


def _shallow(item: Any) -> dict[str, Json]:
    return {f.name: getattr(item, f.name) for f in fields(item)}
