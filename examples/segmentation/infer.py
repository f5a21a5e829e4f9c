#!/usr/bin/env python3
"""Third step: `infer.py day-03.features.npz` finds objects with model.npz, and writes day-03.objects.npz."""

import sys
from pathlib import Path

import numpy as np
from scipy import ndimage


def objects(features: np.ndarray, weights: np.ndarray, least: int = 50) -> np.ndarray:
    """Points that belong together in space and time.

    Args:
        features: (times, latitudes, longitudes, features).
        weights: of the model.
        least: points of an object.

    Returns:
        int32 (times, latitudes, longitudes): number of the object, 0 for none.
    """
    labels, count = ndimage.label(features @ weights > 0, structure=np.ones((3, 3, 3)))
    sizes = np.bincount(labels.ravel(), minlength=count + 1)
    kept = np.flatnonzero(sizes >= least)
    numbers = np.zeros(count + 1, np.int32)
    numbers[kept[kept > 0]] = np.arange(1, (kept > 0).sum() + 1)
    return numbers[labels]


if __name__ == "__main__":
    source = Path(sys.argv[1])
    with np.load(source) as day, np.load("model.npz") as model:
        np.savez(f"{source.name.partition('.')[0]}.objects.npz", objects=objects(day["features"], model["weights"]))
