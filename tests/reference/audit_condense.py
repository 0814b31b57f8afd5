"""A plain condensation, so that audits have releases of a known group size to look at."""

from __future__ import annotations

import numpy as np


def condensed(matrix: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Seeds by lot, their k - 1 nearest, and as many uniform draws with the group's moments."""
    scale = matrix.std(axis=0)
    scale[scale == 0] = 1
    left, drawn = matrix / scale, []
    while len(left):
        if len(left) < 2 * k:
            group, left = left, left[:0]
        else:
            seed = left[rng.integers(len(left))]
            order = np.argsort(((left - seed) ** 2).sum(axis=1), kind="stable")
            group, left = left[order[:k]], left[order[k:]]
        values, axes = np.linalg.eigh(np.atleast_2d(np.cov(group.T, bias=True)))
        steps = rng.uniform(-0.5, 0.5, group.shape) * np.sqrt(12 * np.clip(values, 0, None))
        drawn.append(group.mean(axis=0) + steps @ axes.T)
    return rng.permutation(np.vstack(drawn)) * scale
