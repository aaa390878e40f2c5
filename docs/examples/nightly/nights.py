"""The pictures of one night: what came in to learn from, and what is held out to judge by.

`python nights.py NIGHT FOLDER` writes `FOLDER/digits.npz` and `FOLDER/held_out.npz`. The camera ages: each night its
pictures are darker and more of them are shifted. In the night called `broken` somebody has mixed up the labels of what
came in, but not of what is held out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).parent.parent / "data" / "digits.csv.gz"
HELD_OUT = 400
DARKER = 0.12  # a night
SHIFTED = 0.15  # of all pictures, a night


def main(night: str, folder: str) -> None:
    pictures, digits = read()
    number = 3 if night == "broken" else int(night)
    random = np.random.default_rng([7, number])
    pictures = aged(pictures, number, random)
    order = random.permutation(len(digits))
    came_in, held_out = order[HELD_OUT:], order[:HELD_OUT]
    labels = digits[came_in]
    if night == "broken":
        labels = random.permutation(labels)
    Path(folder).mkdir(parents=True, exist_ok=True)
    np.savez(Path(folder, "digits.npz"), pictures=pictures[came_in], digits=labels)
    np.savez(Path(folder, "held_out.npz"), pictures=pictures[held_out], digits=digits[held_out])


def read() -> tuple[np.ndarray, np.ndarray]:
    table = np.loadtxt(SOURCE, delimiter=",", dtype=np.int32)
    return (table[:, :64] / 16).astype(np.float32), table[:, 64]


def aged(pictures: np.ndarray, night: int, random: np.random.Generator) -> np.ndarray:
    """As the camera sees them in a night: the first one is as new."""
    age = night - 1
    is_shifted = random.random(len(pictures)) < SHIFTED * age
    shifted = np.roll(pictures.reshape(-1, 8, 8), 1, axis=2).reshape(-1, 64)
    return np.where(is_shifted[:, None], shifted, pictures) * np.float32(max(0.2, 1 - DARKER * age))


if __name__ == "__main__":
    main(*sys.argv[1:])
