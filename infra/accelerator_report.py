"""How accelerators are shown: `prefect-tpu accelerators` and the reference page are made of `rows`.

`python -m prefect_tpu.infra.accelerator_report` writes `docs/reference/accelerators.md` to standard output.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from prefect_tpu.infra.accelerators import curated_names, resolve

Row = dict[str, object]

KEYS = (
    "name",
    "generation",
    "topology",
    "machine_type",
    "chips",
    "hosts",
    "chips_per_host",
    "jax_devices",
    "gke_accelerator",
    "notes",
)

_PAGE = """# Accelerators

Every name by number, every GPU machine, and `cpu`. Generated: `python -m prefect_tpu.infra.accelerator_report`.

| written | means |
|---|---|
| `v5p-32` | a named size; the number counts TensorCores (chips on v5e and v6e), as Google's names do |
| `v5p-2x2x4` | a topology, also one that no number names |
| `v5litepod-16`, `TPU-v6e-16`, `tpu:v6e-16` | other spellings of `v5e-16` and `v6e-16` |
| `v6e-8@ct6e-standard-4t` | of this machine type: two hosts of four chips instead of one of eight |
| `v6e-16:spot` | `:spot`, `:on-demand`, `:reserved`, `:reserved=NAME`, `:flex-start` or `:queue` |
| `h100x8`, `l4`, `nvidia-l4` | GPUs of one machine |
| `cpu`, `cpu-2x1` | this machine: hosts x devices of each, on the local backend only |

With `--dialect chips` (`dialect="chips"`) the number counts chips in every generation, as Kinetic's names do:
`v5p-16` is then 16 chips, and a bare `v5p` has Kinetic's default size. Other than with Kinetic, `v6e-8` is one host
of eight chips (`v6e-8@ct6e-standard-4t` is its pair of hosts), and a count without a model (`tpu:8`, `gpu:1`), `cpu:4`
and `v3-2048`, which is larger than any v3, are refused.

"""


def rows(names: Iterable[str], dialect: str = "google") -> list[Row]:
    """One row for each name, with the keys of `KEYS`. Raises `UsageError` for a name that means nothing."""
    return [_row(name.strip(), dialect) for name in names]


def render(rows: Sequence[Row]) -> str:
    """The rows for people: a sheet for one name, an aligned table for more."""
    if len(rows) == 1:
        return _aligned([[key.replace("_", " "), _cell(rows[0][key])] for key in KEYS])
    header = [key.replace("_", " ") for key in KEYS]
    return _aligned([header, *([_cell(row[key]) for key in KEYS] for row in rows)])


def markdown() -> str:
    """The reference page."""
    lines = [KEYS, ["---"] * len(KEYS), *([_cell(row[key]) for key in KEYS] for row in rows(curated_names()))]
    return _PAGE + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _row(name: str, dialect: str) -> Row:
    found = resolve(name, dialect)
    row: Row = {key: getattr(found, key) for key in KEYS}
    written = name.lower().partition(":")[0]
    other_name = [] if found.name == written else [f"the same as {found.name}"]
    return {**row, "name": name, "notes": "; ".join([*other_name, *found.notes])}


def _cell(value: object) -> str:
    return "-" if value in (None, "") else str(value)


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


if __name__ == "__main__":
    sys.stdout.write(markdown())
