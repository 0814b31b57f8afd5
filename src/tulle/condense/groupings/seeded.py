"""The papers' first grouping: random seeds, each with its nearest records."""

from __future__ import annotations

import numpy as np

from tulle.condense.groupings.repair import merge_small, squared
from tulle.moments import Floats, Ints


def original(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """Random records take their nearest until their group is as large as every level in it.

    The rest, too few for a group, join the seeds nearest to them.
    """
    groups = np.full(len(matrix), -1)
    left = rng.permutation(len(matrix))
    seeds: list[int] = []
    while len(left) >= levels[left].max():
        order = left[np.argsort(squared(matrix[left], matrix[left[0]]), kind="stable")]
        size = grown(levels[order])
        groups[order[:size]] = len(seeds)
        seeds.append(int(left[0]))
        left = left[groups[left] < 0]
        if len(left) == 0:
            return merge_small(matrix, groups, levels)
    for row in left:
        groups[row] = np.argmin(squared(matrix[seeds], matrix[row])) if seeds else 0
    return merge_small(matrix, groups, levels)


def grown(levels: Ints) -> int:
    """How many of the first records make a group as large as every level in it."""
    demands = np.maximum.accumulate(levels)
    enough = np.flatnonzero(np.arange(1, len(levels) + 1) >= demands)
    return int(enough[enough + 1 >= levels[0]][0]) + 1 if len(enough) else len(levels)
