"""Groups as rows of members of one width, so that NumPy treats many of them at once."""

from __future__ import annotations

import numpy as np

from tulle.moments import Floats, Ints

NEAR = 10  # records near a record, groups near a group


class PaddedGroups:
    """Rows of members, padded with the number of a row of zeros."""

    def __init__(self, matrix: Floats, levels: Ints, groups: Ints) -> None:
        n = len(matrix)
        self.nobody = n
        self.points = np.vstack([matrix, np.zeros((1, matrix.shape[1]))])
        self.levels = np.append(levels, 0)
        self.sizes = np.bincount(groups).astype(np.int64)
        order = np.argsort(groups, kind="stable")
        member = np.arange(n) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        self.members = np.full((len(self.sizes), 2 * int(self.sizes.max()) + 2), n)
        self.members[groups[order], member] = order
        self.lowest = int(levels.min())
        self.least = 1e-11 * (1.0 + float(np.abs(matrix).max(initial=0.0)) ** 2)

    def labels(self) -> Ints:
        """The group of each record."""
        groups = np.empty(self.nobody + 1, dtype=np.int64)
        groups[self.members] = np.arange(len(self.members))[:, None]
        return groups[:-1]

    def alive(self) -> Ints:
        """Groups that have members."""
        return np.flatnonzero(self.sizes)

    def centres(self) -> Floats:
        """The mean of each group."""
        widest = int(self.sizes.max())
        sums = self.points[self.members[:, :widest]].sum(axis=1)
        return sums / np.maximum(self.sizes, 1)[:, None]

    def near(self) -> Ints:
        """The nearest groups of each group; itself where there are too few."""
        alive = self.alive()
        lists = np.repeat(np.arange(len(self.sizes))[:, None], NEAR, axis=1)
        nearest = nearest_rows(self.centres()[alive], NEAR)
        lists[alive, : nearest.shape[1]] = alive[nearest]
        return lists

    def remove(self, groups: Ints, places: Ints) -> Ints:
        """Takes one member out of each of some groups; the last one takes its place."""
        last = self.sizes[groups] - 1
        gone = self.members[groups, places]
        self.members[groups, places] = self.members[groups, last]
        self.members[groups, last] = self.nobody
        self.sizes[groups] = last
        return gone

    def add(self, groups: Ints, rows: Ints) -> None:
        """Puts one record into each of some groups."""
        self.members[groups, self.sizes[groups]] = rows
        self.sizes[groups] += 1


def nearest_rows(points: Floats, width: int) -> Ints:
    """The nearest other rows of each row, in no order; fewer columns if there are fewer rows."""
    width = min(width, len(points) - 1)
    found = np.empty((len(points), max(width, 0)), dtype=np.int64)
    squares = np.einsum("ij,ij->i", points, points)
    step = max(1, 200_000 // max(points.size, 1))  # products too small to start threads for
    for low in range(0, len(points) if width > 0 else 0, step):
        some = np.arange(low, min(low + step, len(points)))
        apart = squares - 2.0 * points[some] @ points.T
        apart[some - low, some] = np.inf
        found[some] = np.argpartition(apart, width - 1, axis=1)[:, :width]
    return found
