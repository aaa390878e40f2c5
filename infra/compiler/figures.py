"""What does a chip have? Its memory as the compiler counts it, and its peak; of the generations that can be checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prefect_tpu.infra.accelerator_table import GENERATIONS

GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one generation.

    available_gib: what the compiler gives programs of a device's memory: less than Google's page says of the chip,
        since the runtime keeps some. In its own words, in a refusal (libtpu 0.0.42); tests hold each against it.
    peak_tflops: of a chip, in bf16, as Google's page says.
    source: that page, read on 2026-08-22.
    """

    available_gib: float
    peak_tflops: float
    source: str


FIGURES: Mapping[str, Figures] = {
    "v5e": Figures(available_gib=15.75, peak_tflops=197, source="https://docs.cloud.google.com/tpu/docs/v5e"),
    "v5p": Figures(available_gib=95.74, peak_tflops=459, source="https://docs.cloud.google.com/tpu/docs/v5p"),
    "v6e": Figures(available_gib=31.25, peak_tflops=918, source="https://docs.cloud.google.com/tpu/docs/v6e"),
    "tpu7x": Figures(available_gib=94.75, peak_tflops=2307, source="https://docs.cloud.google.com/tpu/docs/tpu7x"),
}


def available_bytes(generation: str) -> int:
    """Of a device's memory, for programs."""
    return int(FIGURES[generation].available_gib * GIB)


def peak_flops(generation: str) -> float:
    """Of a JAX device, a second: a chip's, shared by its devices."""
    return FIGURES[generation].peak_tflops * 1e12 / GENERATIONS[generation].devices_per_chip
