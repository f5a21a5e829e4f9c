#!/usr/bin/env python3
"""First step: `prepare.py day-03.npz` computes the features of each grid point, and writes day-03.features.npz."""

import sys
from pathlib import Path

import numpy as np
from scipy import ndimage


def features(volume: np.ndarray) -> np.ndarray:
    """The transport itself, smoothed in space, and in time too.

    Args:
        volume: (times, latitudes, longitudes), of any unit.

    Returns:
        float32 (times, latitudes, longitudes, 4); the last feature is 1.
    """
    scaled = (volume - np.median(volume)) / volume.std()
    smooth = ndimage.gaussian_filter(scaled, (0, 1.5, 1.5))
    lasting = ndimage.gaussian_filter1d(smooth, 1.0, axis=0)
    return np.stack([scaled, smooth, lasting, np.ones_like(scaled)], axis=-1).astype(np.float32)


if __name__ == "__main__":
    source = Path(sys.argv[1])
    with np.load(source) as day:
        known = {"labels": day["labels"]} if "labels" in day else {}
        np.savez(f"{source.stem}.features.npz", features=features(day["volume"]), **known)
