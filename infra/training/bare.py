"""Which processes belong together outside a job? What another launcher says in the environment, read without JAX."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass

from prefect_tpu.infra.errors import UsageError

PORTS = ("MASTER_PORT", "COORDINATOR_PORT", "JAX_COORDINATOR_ADDRESS")  # where each launcher says it
_LAST_PORT = 65_535
_OWN_PORT = "JAX_COORDINATOR_PORT"  # JAX's own word for it
_TPU_HOSTS = ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES")  # in the order in which JAX looks


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """This process among those that run the program together.

    coordinator: `address:port` where they meet; None where JAX finds that itself.
    run: what only processes of this start of them say.
    device: of its machine's GPUs the one that this process has; None for all of them.
    said: the variables that tell it.
    """

    host: int
    hosts: int
    coordinator: str | None
    run: str = ""
    device: int | None = None
    said: tuple[str, ...]

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.host} of {self.hosts} ({', '.join(self.said)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """The variables of one kind of launcher.

    port: None where the address has it.
    tell: those of which one alone means that this launcher started the process.
    """

    number: str
    count: str
    address: str
    port: str | None = None
    tell: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(name for name in (self.number, self.count, self.address, self.port) if name)


_JAX = _Words(  # Kubeflow Trainer's JAX runtime, Skyward, and this package's own hosts
    number="JAX_PROCESS_ID",
    count="JAX_NUM_PROCESSES",
    address="JAX_COORDINATOR_ADDRESS",
    tell=("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
)
_JAXJOB = _Words(  # Kubeflow's JAXJob; the names of the others are too common to mean it
    number="PROCESS_ID",
    count="NUM_PROCESSES",
    address="COORDINATOR_ADDRESS",
    port="COORDINATOR_PORT",
    tell=("COORDINATOR_ADDRESS",),
)
_TORCH = _Words(  # torchrun, and Kubeflow's PyTorchJob
    number="RANK", count="WORLD_SIZE", address="MASTER_ADDR", port="MASTER_PORT", tell=("RANK", "WORLD_SIZE")
)


def peers(environment: Mapping[str, str] = os.environ) -> Peers | None:
    """The processes that this one belongs to; None where it is alone.

    Raises `UsageError`, naming them, where variables are missing, mean nothing or contradict each other.
    """
    told = [found for words in (_JAX, _JAXJOB, _TORCH) if (found := _read(words, environment)) is not None]
    for other in told[1:]:
        if (other.host, other.hosts) != (told[0].host, told[0].hosts):
            raise UsageError(
                f"The environment says twice which process this is: {told[0].place} and {other.place}. Unset the"
                " variables of the launcher that did not start it."
            )
    found = told[0] if told else _on_tpus(environment)
    return None if found is None or found.hosts == 1 else found


def _read(words: _Words, environment: Mapping[str, str]) -> Peers | None:
    if not any(environment.get(name) for name in words.tell):  # an empty one says nothing, as to JAX
        return None
    missing = [name for name in words.all if not environment.get(name)]
    if missing and environment.get(words.count) != "1":
        raise UsageError(
            f"{', '.join(name for name in words.all if environment.get(name))} say that"
            f" processes run together, but not {' and '.join(missing)}: set all of {', '.join(words.all)}, or none."
        )
    hosts = _count(words.count, environment)
    host = _place(words.number, environment, hosts, words.count)
    return Peers(
        host=host,
        hosts=hosts,
        coordinator=_coordinator(words, environment) if hosts > 1 else None,
        run=_run(environment),
        device=_device(environment) if words is _TORCH else None,
        said=(words.number, words.count),
    )


def _coordinator(words: _Words, environment: Mapping[str, str]) -> str:
    """Torch listens at its own port itself, so that JAX takes the next one."""
    said = environment[words.address]
    if words.port is None:
        name, _, port = said.rpartition(":")
        if not (_is_name(name) and _is_port(port)):
            raise UsageError(f"{words.address} is {said!r}: give it as address:port.")
        return _at(name, port)
    if not _is_name(said):
        raise UsageError(f"{words.address} is {said!r}: give an address alone; {words.port} has the port.")
    port = _port(words.port, environment)
    if words is _TORCH:
        port = _port(_OWN_PORT, environment, str(int(port) + (1 if int(port) < _LAST_PORT else -1)))
    return _at(said, port)


def _at(name: str, port: str) -> str:
    """IPv6 stands in brackets."""
    return f"[{name}]:{port}" if ":" in name and not name.startswith("[") else f"{name}:{port}"


def _is_name(text: str) -> bool:
    """Of a machine, or its address."""
    if ":" not in text:
        return bool(text)
    try:
        ipaddress.IPv6Address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _port(name: str, environment: Mapping[str, str], default: str = "") -> str:
    port = environment.get(name) or default
    if not _is_port(port):
        raise UsageError(f"{name} is {port!r}: give the number of a port.")
    return port


def _is_port(text: str) -> bool:
    return text.isdecimal() and len(text) <= len(str(_LAST_PORT)) and 0 < int(text) <= _LAST_PORT


def _run(environment: Mapping[str, str]) -> str:
    """Torchrun starts its processes again where one has failed; those of before are not counted."""
    words = (environment.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"))
    return "/".join("".join(word.split()) for word in words if word)


def _device(environment: Mapping[str, str]) -> int | None:
    """Where torchrun starts one process for each GPU of a machine, each sees all of them."""
    is_said = "JAX_LOCAL_DEVICE_IDS" in environment or _number("LOCAL_WORLD_SIZE", environment, 1) == 1
    is_chosen = environment.get("CUDA_VISIBLE_DEVICES", ",").count(",") == 0
    return None if is_said or is_chosen else _number("LOCAL_RANK", environment, 0)


def _on_tpus(environment: Mapping[str, str]) -> Peers | None:
    """The hosts of GKE's slices: JAX finds them itself, by the same words."""
    name = next((name for name in _TPU_HOSTS if environment.get(name)), None)
    if name is None or "tpu" not in (environment.get("JAX_PLATFORMS") or "tpu").split(","):
        return None
    each, slices = len(environment[name].split(",")), _count("MEGASCALE_NUM_SLICES", environment)
    needed = (("TPU_WORKER_ID",) if each > 1 else ()) + (("MEGASCALE_SLICE_ID",) if slices > 1 else ())
    if not needed:
        return None
    if missing := [word for word in needed if not environment.get(word)]:
        raise UsageError(
            f"{name} has {each} host{'s' if each > 1 else ''} of each of {slices} slice{'s' if slices > 1 else ''}, and"
            f" {' and '.join(missing)} does not say which this is: set it, or unset {name} where this is one host."
        )
    within = _place("TPU_WORKER_ID", environment, each, name)
    number = _place("MEGASCALE_SLICE_ID", environment, slices, "MEGASCALE_NUM_SLICES")
    return Peers(host=number * each + within, hosts=each * slices, coordinator=None, said=(name, *needed))


def _count(name: str, environment: Mapping[str, str]) -> int:
    count = _number(name, environment, 1)
    if count < 1:
        raise UsageError(f"{name} is {count}: give a whole number from 1.")
    return count


def _place(name: str, environment: Mapping[str, str], count: int, counted: str) -> int:
    place = _number(name, environment, 0)
    if not 0 <= place < count:
        raise UsageError(f"{name} is {place}, and {counted} tells of {count}: numbers are counted from 0.")
    return place


def _number(name: str, environment: Mapping[str, str], default: int) -> int:
    text = environment.get(name) or str(default)
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name} is {text!r}: give a whole number.") from None
