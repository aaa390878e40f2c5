"""Which node pools does Google refuse to make? One function a rule; each answers in Google's words, or nothing.

What is known of the words is kept; where only the rule is known, the words are ours in Google's manner.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from container_labels import wrong_label, wrong_taint
from container_machines import Machine, find
from container_nodes import capacity_kind
from container_world import Failure, World
from google.cloud.container_v1 import NodePool, NodePoolAutoscaling, NodePoolUpdateStrategy

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_TOPOLOGY = re.compile(r"[1-9][0-9]*(x[1-9][0-9]*){1,2}")
_LONGEST_RUN_SECONDS = 7 * 24 * 3600
_RESERVATION_KEY = "compute.googleapis.com/reservation-name"
_COMPACT = NodePool.PlacementPolicy.Type.COMPACT


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A pool that somebody wants. zones: where the cluster may have nodes."""

    pool: NodePool
    machine: Machine
    zones: tuple[str, ...]
    world: World

    @property
    def topology(self) -> str:
        return str(self.pool.placement_policy.tpu_topology) or self.world.policies.get(self.policy, "")

    @property
    def policy(self) -> str:
        """The workload policy's name, without where it lies."""
        return str(self.pool.placement_policy.policy_name).rpartition("/")[2]

    @property
    def hosts(self) -> int:
        """How many nodes one slice has; 0 for what is no slice of many."""
        found = self.machine.hosts(self.topology) if self.machine.is_tpu and self.topology else None
        return found if found and found > 1 else 0

    @property
    def is_given_by_scheduler(self) -> bool:
        return bool(self.pool.config.flex_start or self.pool.queued_provisioning.enabled)


def refusal(pool: NodePool, zones: tuple[str, ...], world: World) -> str | None:
    """Why a pool like this is not made in a cluster that may have nodes in these zones."""
    machine = find(pool.config.machine_type or "e2-medium")
    if machine is None:
        zone = pool.locations[0]
        return f'Machine type with name "{pool.config.machine_type}" does not exist in zone "{zone}".'
    asked = Asked(pool=pool, machine=machine, zones=zones, world=world)
    return next((said for rule in _RULES if (said := rule(asked))), None)


def doom(pool: NodePool) -> Failure | None:
    """Why a pool that was taken on ends in ERROR whatever capacity there is."""
    machine, placement = find(pool.config.machine_type), pool.placement_policy
    is_joined_by_policy = placement.policy_name and placement.type_ != _COMPACT
    if not machine or not machine.wants_workload_policy or not placement.tpu_topology or is_joined_by_policy:
        return None
    said = (
        f"Creation of a managed instance group with {machine.name} machine type with placement policy is not supported."
        " Use workload policy instead."
    )
    return Failure(code="INVALID_ARGUMENT", condition="UNKNOWN", message=said)


_RULES: list[Callable[[Asked], str | None]] = []


def _rule(rule: Callable[[Asked], str | None]) -> Callable[[Asked], str | None]:
    _RULES.append(rule)
    return rule


@_rule
def _name(asked: Asked) -> str | None:
    if _NAME.fullmatch(asked.pool.name):
        return None
    return (
        f'Invalid value for field "node_pool.name": "{asked.pool.name}". Must be a match of regex'
        " '(?:[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?)'."
    )


@_rule
def _labels(asked: Asked) -> str | None:
    return wrong_label(asked.pool.config)


@_rule
def _taints(asked: Asked) -> str | None:
    return wrong_taint(asked.pool.config)


@_rule
def _places(asked: Asked) -> str | None:
    wrong = [zone for zone in asked.pool.locations if zone not in asked.zones]
    return (
        f'Location "{wrong[0]}" is not valid for this cluster: it may have nodes in {asked.zones}.' if wrong else None
    )


@_rule
def _alone(asked: Asked) -> str | None:
    """What one machine makes by itself has no topology, and no policy, and is not compact."""
    if not asked.machine.is_tpu or asked.machine.alone is None:
        return None
    if asked.topology == asked.machine.alone:
        return (
            "TPU topology can't be specified with single-host TPU slice pool; please remove the tpu_topology from the"
            " node pool creation request if the node pool is intented to run with single-host TPU slice nodes."
        )
    if not asked.topology and asked.pool.placement_policy.type_ == _COMPACT:
        return "Compact placement is not supported for single-host TPU slice pools."
    return None


@_rule
def _policy(asked: Asked) -> str | None:
    if not asked.policy:
        return None
    if asked.policy not in asked.world.policies:
        return f"The resource policy '{asked.pool.placement_policy.policy_name}' was not found."
    if not asked.machine.takes_workload_policy:
        return f"Workload policy is not supported for machine type {asked.machine.name}."
    if asked.pool.placement_policy.type_ == _COMPACT:
        return "Placement policy type and policy name are mutually exclusive."
    if asked.world.policies[asked.policy] != asked.topology:
        return f"TPU topology {asked.topology} does not match that of the workload policy {asked.policy}."
    return None


@_rule
def _topology(asked: Asked) -> str | None:
    given = asked.topology
    if not given:
        is_missing = asked.machine.is_tpu and asked.machine.alone is None
        return f"Machine type {asked.machine.name} doesn't support single host topology." if is_missing else None
    if not asked.machine.is_tpu:
        return f"TPU topology can't be specified with machine type {asked.machine.name}."
    if not _TOPOLOGY.fullmatch(given) or asked.machine.hosts(given) is None:
        return f'TPU topology "{given}" is invalid for machine type {asked.machine.name}.'
    if not asked.policy and asked.pool.placement_policy.type_ != _COMPACT and not asked.machine.wants_workload_policy:
        return "TPU topology can only be specified with COMPACT placement policy type."
    return None


@_rule
def _zonal(asked: Asked) -> str | None:
    is_compact = asked.pool.placement_policy.type_ == _COMPACT
    if len(asked.pool.locations) < 2 or not (is_compact or asked.hosts):
        return None
    return "Compact placement is supported in a single zone only; node pool has locations in several zones."


@_rule
def _size(asked: Asked) -> str | None:
    """A slice is there as a whole, or not at all."""
    if not asked.hosts or asked.pool.initial_node_count in (0, asked.hosts):
        return None
    return _wrong_size("Initial", asked.pool.initial_node_count, asked.topology)


def _wrong_size(word: str, count: int, topology: str) -> str:
    return f"{word} node count {count} is not a valid size of TPU pod slice with topology {topology}"


@_rule
def autoscaling(asked: Asked) -> str | None:
    """Also asked where only the autoscaling of a pool is to change."""
    scaling = asked.pool.autoscaling
    if not scaling.enabled:
        return None
    if (scaling.min_node_count or scaling.max_node_count) and (
        scaling.total_min_node_count or scaling.total_max_node_count
    ):
        return "Per-location and total node counts of autoscaling are mutually exclusive."
    if asked.hosts and scaling.max_node_count != asked.hosts:
        return _wrong_size("Maximum", scaling.max_node_count, asked.topology)
    if asked.hosts and scaling.min_node_count not in (0, asked.hosts):
        return _wrong_size("Minimum", scaling.min_node_count, asked.topology)
    if max(scaling.max_node_count, scaling.total_max_node_count) < 1:
        return "Maximum node count of autoscaling must be at least 1."
    return None


@_rule
def _kinds(asked: Asked) -> str | None:
    """Each machine is paid for in one way."""
    config, queued = asked.pool.config, asked.pool.queued_provisioning.enabled
    is_reserved = bool(config.reservation_affinity.values)
    if config.spot and is_reserved:
        return "Spot VMs can't consume reservations: reservation affinity must be NO_RESERVATION."
    if config.spot and (config.flex_start or queued):
        return "Spot VMs can't be used with flex-start or queued provisioning."
    if asked.is_given_by_scheduler and is_reserved:
        return "Reservation affinity must be NO_RESERVATION with flex-start or queued provisioning."
    return None


@_rule
def _scheduler(asked: Asked) -> str | None:
    """What Dynamic Workload Scheduler gives, it gives in its own time and to an empty pool."""
    if not asked.is_given_by_scheduler:
        return None
    kind = capacity_kind(asked.pool)
    if not asked.machine.is_for_flex_start:
        return f"Machine type {asked.machine.name} is not supported with {kind}."
    if not asked.pool.autoscaling.enabled:
        return f"A node pool with {kind} must have autoscaling enabled."
    if (
        asked.pool.initial_node_count
        or asked.pool.autoscaling.min_node_count
        or asked.pool.autoscaling.total_min_node_count
    ):
        return f"A node pool with {kind} must have no nodes at first: the static node count must be 0."
    if asked.pool.autoscaling.location_policy == NodePoolAutoscaling.LocationPolicy.BALANCED:
        return f"A node pool with {kind} must have location policy ANY."
    if asked.pool.management.auto_repair:
        return f"Node auto-repair must be disabled in a node pool with {kind}."
    return None


@_rule
def _run_duration(asked: Asked) -> str | None:
    longest = asked.pool.config.max_run_duration
    seconds = longest.total_seconds() if longest else 0
    return "max_run_duration must be at most 604800 seconds (7 days)." if seconds > _LONGEST_RUN_SECONDS else None


@_rule
def _reservation(asked: Asked) -> str | None:
    affinity = asked.pool.config.reservation_affinity
    is_specific = affinity.consume_reservation_type.name == "SPECIFIC_RESERVATION"
    if is_specific and (affinity.key != _RESERVATION_KEY or not affinity.values):
        return f"A specific reservation needs the key {_RESERVATION_KEY} and a value."
    if affinity.values and not is_specific:
        return "Reservation names are for SPECIFIC_RESERVATION only."
    known = asked.world.reservations
    if affinity.values and known is not None and affinity.values[0] not in known:
        return f"Reservation {affinity.values[0]} not found in zone {asked.pool.locations[0]}."
    return None


@_rule
def _account(asked: Asked) -> str | None:
    account = asked.pool.config.service_account or "default"
    if account not in asked.world.accounts:
        return None
    return (
        f'The user does not have access to service account "{account}". Ask a project owner to grant you the'
        " iam.serviceAccountUser role on the service account."
    )


@_rule
def _disk(asked: Asked) -> str | None:
    disk = asked.pool.config.disk_type or asked.pool.config.boot_disk.disk_type
    if asked.machine.wants_hyperdisk and disk.startswith("pd-"):
        return f"[{disk}] features are not compatible for creating instance of machine type {asked.machine.name}."
    return None


@_rule
def _gpus(asked: Asked) -> str | None:
    given = [(one.accelerator_type, one.accelerator_count) for one in asked.pool.config.accelerators]
    if given and asked.machine.is_tpu:
        return f"Accelerators can't be attached to machine type {asked.machine.name}."
    if given and asked.machine.gpu and given != [(asked.machine.gpu, asked.machine.chips)]:
        return f"Machine type {asked.machine.name} has {asked.machine.chips} {asked.machine.gpu}: {given} is invalid."
    if given and not asked.machine.gpu and asked.machine.family != "n1":
        return f"Accelerator {given[0][0]} can't be attached to machine type {asked.machine.name}."
    return None


@_rule
def _pods(asked: Asked) -> str | None:
    most = asked.pool.max_pods_constraint.max_pods_per_node
    return f"Invalid max pods per node {most}: it must be from 8 to 256." if most and not 8 <= most <= 256 else None


@_rule
def _upgrades(asked: Asked) -> str | None:
    is_blue_green = asked.pool.upgrade_settings.strategy == NodePoolUpdateStrategy.BLUE_GREEN
    is_compact = asked.pool.placement_policy.type_ == _COMPACT
    return "Blue-green upgrades are not supported with compact placement." if is_blue_green and is_compact else None
