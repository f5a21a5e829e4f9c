#!/usr/bin/env python3
"""Second step: `train.py day-00.features.npz …` learns from the days with labels, and writes model.npz."""

import sys

import numpy as np


def fit(features: np.ndarray, labels: np.ndarray, passes: int = 12) -> np.ndarray:
    """Logistic regression by Newton's method.

    Args:
        features: (points, features).
        labels: bool (points,).
        passes: Newton steps.

    Returns:
        float64 weights, one for each feature.
    """
    weights = np.zeros(features.shape[1])
    for _ in range(passes):
        likely = 1 / (1 + np.exp(-features @ weights))
        curvature = (features * (likely * (1 - likely))[:, None]).T @ features + 1e-3 * np.eye(len(weights))
        weights += np.linalg.solve(curvature, features.T @ (labels - likely))
        loss = -np.log(np.where(labels, likely, 1 - likely).clip(1e-12)).mean()
        print(f"loss {loss:.4f}", flush=True)
    return weights


if __name__ == "__main__":
    days = [np.load(name) for name in sys.argv[1:]]
    count = days[0]["features"].shape[-1]
    points = np.concatenate([day["features"].reshape(-1, count) for day in days]).astype(float)
    np.savez("model.npz", weights=fit(points, np.concatenate([day["labels"].ravel() for day in days])))
