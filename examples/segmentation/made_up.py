#!/usr/bin/env python3
"""Data to try the workflow with: `made_up.py DIRECTORY` writes eight days, two of them with labels."""

import sys
from pathlib import Path

import numpy as np

DAYS, LABELLED, PLUMES = 8, 2, 3
SHAPE = (8, 96, 144)
"""Times, every three hours; latitudes; longitudes."""


def day(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Plumes that drift, in noise.

    Args:
        random: numbers.

    Returns:
        float32 transport and bool labels, both of SHAPE: a plume is where it is above half of its highest value.
    """
    time, latitude, longitude = np.indices(SHAPE, dtype=float)
    clean = np.zeros(SHAPE)
    for number in range(PLUMES):
        # each in a third of the longitudes, so that no two touch
        at = random.uniform(15, SHAPE[1] - 15), (number + random.uniform(0.35, 0.65)) * SHAPE[2] / PLUMES
        drift, width = random.uniform(-0.7, 0.7, 2), random.uniform(5, 8, 2)
        north, east = latitude - at[0] - drift[0] * time, longitude - at[1] - drift[1] * time
        clean = np.maximum(clean, np.exp(-((north / width[0]) ** 2) - (east / width[1]) ** 2))
    return (clean + random.normal(0, 0.15, SHAPE)).astype(np.float32), clean > 0.5


if __name__ == "__main__":
    generator = np.random.default_rng(20_01)
    for index in range(DAYS):
        volume, labels = day(generator)
        known = {"labels": labels} if index < LABELLED else {}
        np.savez_compressed(Path(sys.argv[1]) / f"day-{index:02}.npz", volume=volume, **known)
