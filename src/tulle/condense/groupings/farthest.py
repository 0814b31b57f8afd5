"""MDAV, the field's reference: groups around the records farthest from the middle."""

from __future__ import annotations

import numpy as np

from tulle.condense.groupings.repair import squared
from tulle.moments import Floats, Ints

SMALL = 3_000  # records up to which NumPy is used, and no compiler


def mdav(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """Maximum distance to average vector (Domingo-Ferrer and Torra 2005). Deterministic.

    The record farthest from the mean takes its k - 1 nearest, then the record farthest from that
    one does, as long as 3k records are left. With levels the seed is the farthest of those that
    ask for most, and takes as many as it asks for: nobody left asks for more, so every group is
    valid. Records that could not stand alone stay with the last group.
    """
    if len(matrix) > SMALL:
        from tulle.condense.groupings._start_kernels import mdav_block

        groups = np.empty(len(matrix), dtype=np.int64)
        columns = np.array(matrix.T, dtype=np.float64, order="C")
        mdav_block(columns, levels.copy(), np.arange(len(matrix)), 0, groups)
        return groups
    return mdav_small(matrix, levels)


def mdav_small(matrix: Floats, levels: Ints) -> Ints:
    """MDAV without a compiler."""
    groups = np.empty(len(matrix), dtype=np.int64)
    left = _Left(matrix, levels)
    number = 0
    while len(left.rows):
        seed = left.farthest_of_top(left.points.mean(axis=0))
        point, size = left.points[seed], int(left.levels[seed])
        twice = len(left.rows) >= 3 * size
        groups[left.take(point, size)] = number
        number += 1
        if twice and len(left.rows):
            seed = left.farthest_of_top(point)
            groups[left.take(left.points[seed], int(left.levels[seed]))] = number
            number += 1
    return groups


class _Left:
    """The records that are in no group yet."""

    def __init__(self, matrix: Floats, levels: Ints) -> None:
        self.points, self.levels = matrix, levels
        self.rows = np.arange(len(matrix))

    def farthest_of_top(self, point: Floats) -> int:
        top = np.flatnonzero(self.levels == self.levels.max())
        return int(top[squared(self.points[top], point).argmax()])

    def take(self, point: Floats, size: int) -> Ints:
        """Removes the nearest records, and all if the rest could not stand alone."""
        stay = np.ones(len(self.rows), dtype=bool)
        away = squared(self.points, point)
        stay[np.argpartition(away, size - 1)[:size]] = False
        if self.levels[stay].max(initial=0) > len(stay) - size:
            stay[:] = False
        taken = self.rows[~stay]
        self.points, self.levels = self.points[stay], self.levels[stay]
        self.rows = self.rows[stay]
        return taken
