"""What are the node pools of an attempt called, and by which labels are they known as ours?

The labels are on the pool's nodes and on its machines alike, so values are of a-z, 0-9, '-' and '_':

    prefect-tpu-job        the job's name
    prefect-tpu-attempt    the attempt's number
    prefect-tpu-owner      a hash of the job's folder: another output may have a job of the same name
    prefect-tpu-pools      a hash of folder, attempt and offer: what all pools of one try share, and no other has
    prefect-tpu-made       seconds since the epoch: Google does not tell when a pool was made
    prefect-tpu-deadline   seconds since the epoch after which anybody may delete the pool, whatever else is known

Nodes have a taint too, `prefect-tpu/pools`, with the value of `prefect-tpu-pools`: it keeps the pods of others off. Its
key is not the label's: for pods that select by a label and tolerate a taint alike, GKE's auto-provisioning makes nodes.

A name is `<attempt>-<hash>-<index>`, at most 40 characters: 22 of the attempt, 10 of the hash, 3 digits. It follows
from the attempt and its offer alone, so whoever goes on where another process was killed asks for the same pools.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prefect_tpu.infra import layout
from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.gcp.ownership import OURS, short_hash

JOB = f"{OURS}-job"
ATTEMPT = f"{OURS}-attempt"
OWNER = f"{OURS}-owner"
POOLS = f"{OURS}-pools"
MADE = f"{OURS}-made"
DEADLINE = f"{OURS}-deadline"
TAINT = f"{OURS}/pools"

LONGEST_NAME = 40
_HASH_DIGITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One attempt's try to have its slices by one offer. output: the job's folder. zone: of its machines."""

    job: str
    attempt: int
    output: str
    accelerator: str
    zone: str | None

    @property
    def owner(self) -> str:
        return owner_hash(self.output)

    @property
    def pools(self) -> str:
        said = (self.output, str(self.attempt), self.accelerator, self.zone or "")
        return short_hash("\n".join(said).encode())[:_HASH_DIGITS]

    def name(self, index: int) -> str:
        return f"{layout.attempt_name(self.job, self.attempt)}-{self.pools}-{index}"

    def labels(self, made: float, deadline: float) -> dict[str, str]:
        return {
            JOB: self.job,
            ATTEMPT: str(self.attempt),
            OWNER: self.owner,
            POOLS: self.pools,
            MADE: f"{made:.0f}",
            DEADLINE: f"{deadline:.0f}",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """What the labels of a pool of ours say. deadline, made: seconds since the epoch."""

    job: str
    attempt: int
    owner: str
    pools: str
    made: float
    deadline: float


def owner_hash(output: str) -> str:
    """Of a job's folder."""
    return short_hash(output.encode())


def read_owner(labels: Mapping[str, str]) -> Owner | None:
    """None for a pool that is not ours: one that lacks any of the labels, or has another's."""
    try:
        return Owner(
            job=labels[JOB],
            attempt=int(labels[ATTEMPT]),
            owner=labels[OWNER],
            pools=labels[POOLS],
            made=float(labels[MADE]),
            deadline=float(labels[DEADLINE]),
        )
    except (KeyError, ValueError):
        return None


def pool_count(shape: Slice, slices: int) -> int:
    """How many pools serve an attempt.

    Hosts whose chips are joined are a pool of their own for each slice. Slices of one host are the nodes of one pool:
    a cluster makes one pool at a time, and takes minutes for each.
    """
    return slices if shape.hosts > 1 else 1


def pool_names(tried: Try, shape: Slice, slices: int) -> tuple[str, ...]:
    return tuple(tried.name(index) for index in range(pool_count(shape, slices)))


def label_of(names: tuple[str, ...]) -> dict[str, str]:
    """What all nodes of these pools have, and no others."""
    return {POOLS: _pools_of(names[0])}


def taint_of(name: str) -> dict[str, str]:
    """Key and value of the taint that keeps others off the nodes of a pool, and off those of no other try."""
    return {"key": TAINT, "value": _pools_of(name)}


def _pools_of(name: str) -> str:
    _, pools, _ = name.rsplit("-", 2)
    return pools
