"""Which GPUs has this machine, which of them has a slice, and are they what its name says?"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.backends.local_slices import slice_count

VISIBLE = "CUDA_VISIBLE_DEVICES"
ANSWER_SECONDS = 5.0  # a driver that hangs is no reason to hang too
_DEVICE = re.compile(r"nvidia\d+")
_NAME = re.compile(r"\d+|(GPU|MIG)-.+")
_ALL = ("--query-gpu=index,uuid,name", "--format=csv,noheader")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """name: as `CUDA_VISIBLE_DEVICES` takes it. model: what the card calls itself; empty where nobody says."""

    name: str
    model: str = ""


class LocalGpus:
    """The GPUs of this machine, shared out among its slices; looked for when the first job wants any, and once."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    @cached_property
    def _all(self) -> tuple[Gpu, ...]:
        return machine_gpus(self._environment)

    @property
    def of_a_slice(self) -> int:
        return len(self._share(0))

    def serve(self, shape: Slice) -> bool:
        """Whether this slice is made of GPUs: its name says so, and the machine has some."""
        return shape.platform == "gpu" and bool(self._all)

    def chosen(self, shape: Slice, number: int) -> tuple[Gpu, ...]:
        """Those of slice `number` that its job gets."""
        return self._share(number)[: shape.chips] if self.serve(shape) else ()

    def _share(self, number: int) -> tuple[Gpu, ...]:
        return share(self._all, slice_count(self._environment), number)


def machine_gpus(environment: Mapping[str, str], devices: Path = Path("/dev")) -> tuple[Gpu, ...]:
    """Those that this environment lets a program see, else all there are.

    CUDA counts what a program can see from 0, whatever the numbers of the device files are: a container
    that was lent `/dev/nvidia3` alone calls it 0, and so does `nvidia-smi` there.
    """
    cards = dict(_cards(environment))
    if VISIBLE in environment:
        names = takewhile(_NAME.fullmatch, (name.strip() for name in environment[VISIBLE].split(",")))
        gpus = (Gpu(name=name, model=_model(name, cards)) for name in names)
        return tuple(takewhile(lambda gpu: gpu.model or not cards or gpu.name.startswith("MIG-"), gpus))
    if cards:
        return tuple(Gpu(name=name, model=model) for name, model in cards.items() if name.isdecimal())
    found = sum(1 for path in devices.glob("nvidia*") if _DEVICE.fullmatch(path.name))
    return tuple(Gpu(name=str(number)) for number in range(found))


def share(gpus: tuple[Gpu, ...], slices: int, number: int) -> tuple[Gpu, ...]:
    """The GPUs of slice `number`: every slice has equally many and no two have one in common."""
    each = len(gpus) // slices
    return gpus[number * each : (number + 1) * each]


def in_words(gpus: tuple[Gpu, ...]) -> str:
    """`2 NVIDIA L4, 1 of unknown model`."""
    counts = Counter(gpu.model or "of unknown model" for gpu in gpus)
    return ", ".join(f"{count} {model}" for model, count in counts.items())


def stand_in(shape: Slice, gpus: tuple[Gpu, ...]) -> str:
    """A sentence that says what runs in place of the GPUs of a name; empty where they are there, or may be."""
    if shape.platform != "gpu":
        return ""
    if not gpus:
        return f"No GPU is to be seen on this machine: CPU devices stand in for {shape.name}."
    if all(is_of(gpu.model, shape.generation) for gpu in gpus if gpu.model):
        return ""
    return f"The GPUs of this machine are not what {shape.name} names: {in_words(gpus)} will stand in."


def is_of(model: str, generation: str) -> bool:
    """Whether a card that calls itself `model` is one of that accelerator's: `NVIDIA L4` of `l4`, an L40 is not."""
    said = set(re.split(r"[^a-z0-9]+", model.lower()))
    wanted = set(generation.split("-")) - {"mega"}  # these are H100s too, with another network
    return wanted <= said and not (generation == "a100" and "80gb" in said)


def _cards(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(index, model) and (UUID, model) of each card, as its driver tells; nothing where there is none to ask."""
    tool = shutil.which("nvidia-smi", path=environment.get("PATH"))
    if tool is None:
        return
    try:
        ended = subprocess.run(
            [tool, *_ALL], capture_output=True, text=True, timeout=ANSWER_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in ended.stdout.splitlines() if ended.returncode == 0 else ():
        index, uuid, model = (part.strip() for part in (line + ",,").split(",")[:3])
        yield index, model
        yield uuid, model


def _model(name: str, cards: Mapping[str, str]) -> str:
    """CUDA takes the beginning of a UUID for the whole."""
    whole = (model for card, model in cards.items() if card == name or (not name.isdecimal() and card.startswith(name)))
    return next(whole, "")
