"""MDAV, the field's reference: groups around the records farthest from the middle."""

from __future__ import annotations

import numpy as np

from tulle.condense.groupings.repair import merge_small, squared
from tulle.condense.groupings.seeded import grown
from tulle.moments import Floats, Ints


def mdav(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """Maximum distance to average vector (Domingo-Ferrer and Torra 2005).

    The record farthest from the mean takes its nearest, then the record farthest from that one;
    with levels a group grows until it is as large as every level in it. Deterministic.
    """
    groups = np.full(len(matrix), -1)
    left = np.arange(len(matrix))
    count = 0
    while len(left):
        demand = int(levels[left].max())
        if len(left) < 2 * demand:
            groups[left] = count
            break
        middle = matrix[left].mean(axis=0)
        first = left[np.argmax(squared(matrix[left], middle))]
        turns = 2 if len(left) >= 3 * demand else 1
        seed = first
        for _ in range(turns):
            order = left[np.argsort(squared(matrix[left], matrix[seed]), kind="stable")]
            farthest = order[-1]
            groups[order[: grown(levels[order])]] = count
            count += 1
            left = left[groups[left] < 0]
            if len(left) == 0:
                break
            seed = farthest if groups[farthest] < 0 else left[0]
    return merge_small(matrix, groups, levels)
