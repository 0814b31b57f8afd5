"""How far the distribution of one column moved."""

from __future__ import annotations

import numpy as np

from tulle._types import Floats, Integers


def wasserstein(original: Floats, released: Floats) -> float:
    """Compute the area between two distribution functions: the cost of moving one into the other.

    >>> wasserstein(np.array([0.0, 1.0]), np.array([3.0, 4.0]))
    3.0
    """
    edges = np.sort(np.concatenate([original, released]))
    first = np.searchsorted(np.sort(original), edges[:-1], side="right") / len(original)
    second = np.searchsorted(np.sort(released), edges[:-1], side="right") / len(released)
    return float(np.abs(first - second) @ np.diff(edges))


def total_variation(original: Integers, released: Integers) -> float:
    """Compute half the sum of the differences of shares: 0 if equal, 1 for nothing in common.

    >>> total_variation(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]))
    0.25
    """
    _, numbers = np.unique(np.concatenate([original, released]), return_inverse=True)
    top = int(numbers.max()) + 1
    first = np.bincount(numbers[: len(original)], minlength=top) / len(original)
    second = np.bincount(numbers[len(original) :], minlength=top) / len(released)
    return float(np.abs(first - second).sum() / 2)


def range_coverage(original: Floats, released: Floats) -> float:
    """Compute the share of the original's range that the release spans.

    >>> range_coverage(np.array([0.0, 10.0]), np.array([2.0, 7.0]))
    0.5
    """
    low, high = float(original.min()), float(original.max())
    if low == high:
        return float(bool((released == low).any()))
    covered = min(high, float(released.max())) - max(low, float(released.min()))
    return max(0.0, covered) / (high - low)
