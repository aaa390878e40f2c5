"""What is sent to the hosts of one attempt: `HostPlan`, written once as `plan.json`.

Every port, folder and device setting of a host comes from here, so that jobs
side by side never meet. Standard library only: the host runner reads it too.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.job import Program

_WHERE_SAID = ("regions", "region", "start_from", "mesh", "profile")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePoint:
    """A complete checkpoint of an earlier attempt."""

    attempt: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlan:
    """One attempt on one slice, as every host of it reads it.

    output: the job's folder.
    slices: how many slices of the accelerator there are.
    hosts: how many there are, over all slices; with Pathways one alone, which has all of them.
    workers: pods that hold the chips in place of hosts, with Pathways; else 0.
    elastic_slices: of the slices, how many may be lost and come back while the program runs on.
    backend: where its hosts are.
    cluster, namespace: of hosts that are pods; the names under which they were sent.
    zone: that its slices are in, where one was chosen.
    pools: names of the node pools that were made for it, and go with it.
    scratch: a folder of each host's own disk, for what its program and its runner tell each other; None where that
        lies in the output.
    platform: `cpu`, `cuda`, `tpu` or `proxy`: what JAX runs on; the last is Pathways.
    devices_per_host: JAX devices that each host must find.
    gpus: names of a host's GPUs, as `CUDA_VISIBLE_DEVICES` takes them; with `cuda` only.
    stand_in: what runs in place of the GPUs that the accelerator names, as a sentence; empty where they are there.
    coordinator: `address:port` where the hosts meet; also the port of other frameworks' rendezvous.
    addresses: one per host, the leader's first.
    restore: where this attempt starts from, chosen once.
    start_from: where it starts from instead while the job has no checkpoint of its own, as `start_points` reads it.
    mesh: of a program that says none itself, as JSON; empty where the job says none either.
    checkpoint_every, grace, join_timeout, deadline, stall_timeout: seconds, see `SliceJob`.
    orphan_after: seconds, see `SliceJob`; None where hosts run on to their deadline though nobody drives them.
    profile: which steps to record, as `windows` reads it; "" for none.
    python: the interpreter of the hosts.
    regions: of a flow, `address:port` where its hosts and it meet for regions.
    region: which region this is the plan of; None of a plan that was sent.
    """

    job: str
    attempt: int
    accelerator: str
    output: str
    slices: int = 1
    hosts: int
    workers: int = 0
    elastic_slices: int = 0
    backend: str = "local"
    cluster: str | None = None
    namespace: str | None = None
    zone: str | None = None
    pools: tuple[str, ...] = ()
    scratch: str | None = None
    devices_per_host: int
    platform: str
    gpus: tuple[str, ...] = ()
    stand_in: str = ""
    coordinator: str
    addresses: tuple[str, ...]
    program: Program
    data: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    restore: RestorePoint | None = None
    start_from: str = ""
    mesh: str = ""
    checkpoint_every: float
    grace: float
    orphan_after: float | None
    join_timeout: float
    deadline: float | None = None
    stall_timeout: float | None = None
    drills: tuple[str, ...] = ()
    profile: str = ""
    python: str
    regions: str | None = None
    region: str | None = None

    def to_json(self) -> bytes:
        """Without what only some plans say: objects in a cluster are known by the hash of their plan."""
        data = asdict(self)
        return contract.write_json({key: value for key, value in data.items() if key not in _WHERE_SAID or value})

    @property
    def mark(self) -> str:
        """What every process of this attempt carries in its environment as `Env.ATTEMPT`."""
        return f"{self.output}/{self.attempt}"

    @property
    def hosts_per_slice(self) -> int:
        """One at least: a host that has all slices counts as one of the first."""
        return max(1, self.hosts // self.slices)

    def scratch_folder(self, host: int) -> Path:
        """Where a host's program and its runner talk to each other."""
        if self.scratch is None:
            return Path(self.output, layout.scratch(self.attempt, host))
        return Path(self.scratch, layout.attempt_name(self.job, self.attempt), str(host))

    @classmethod
    def from_json(cls, raw: bytes | str) -> HostPlan:
        data = contract.read_json(raw, "plan.json")
        known = {f.name for f in fields(cls)}
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data.items() if key in known
        }
        with contract.reading("plan.json"):
            return cls(
                **{
                    **values,
                    "program": Program.from_json(data["program"]),
                    "restore": data["restore"] and RestorePoint(**data["restore"]),
                }
            )
