"""MDAV as it is written down, one record at a time."""

from __future__ import annotations

import numpy as np


def mdav_written_down(matrix: np.ndarray, k: int) -> np.ndarray:
    """Domingo-Ferrer and Torra 2005, for one k and distances without ties."""
    groups = np.full(len(matrix), -1)
    left = list(range(len(matrix)))
    number = 0

    def farthest(point: np.ndarray) -> int:
        return max(left, key=lambda row: float(((matrix[row] - point) ** 2).sum()))

    def close(seed: int) -> None:
        nonlocal number
        order = sorted(left, key=lambda row: float(((matrix[row] - matrix[seed]) ** 2).sum()))
        for row in order[:k]:
            groups[row] = number
            left.remove(row)
        number += 1

    while len(left) >= 3 * k:
        seed = farthest(matrix[left].mean(axis=0))
        close(seed)
        close(farthest(matrix[seed]))
    if len(left) >= 2 * k:
        close(farthest(matrix[left].mean(axis=0)))
    for row in left:
        groups[row] = number
    return groups
