"""Cuts of space into leaves of about equally many records, and leaves joined into cells.

A cut lies across the direction in which the records of a sample are spread widest. Which leaf a
record belongs to depends on the record alone, so batches can be placed anywhere and in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tulle._threads import linear_algebra_on_one
from tulle._types import Floats, Ints

_LEAST = 64  # records of the sample on which a cut rests
_ROOM = 4  # times its highest level: the fewest people in a cell


@dataclass(frozen=True)
class Cuts:
    """A binary tree: a node sends a record left if ``direction @ record <= threshold``."""

    directions: Floats  # (nodes, d)
    thresholds: Floats  # (nodes,)
    children: Ints  # (nodes, 2); ``~leaf`` where nothing is cut
    leaves: int

    def locate(self, points: Floats) -> Ints:
        """Return the leaf of each record."""
        found = np.zeros(len(points), dtype=np.int64)
        pending = [(0, np.arange(len(points)))] if len(self.thresholds) else []
        while pending:
            node, rows = pending.pop()
            right = _along(points[rows], self.directions[node]) > self.thresholds[node]
            for child, some in zip(self.children[node].tolist(), (rows[~right], rows[right])):
                if child < 0:
                    found[some] = ~child
                elif len(some):
                    pending.append((child, some))
        return found

    def joined(self, people: Ints, levels: Ints) -> Ints:
        """Return the cell of each leaf: siblings are joined until a cell can hold its own levels.

        ``people`` and ``levels`` are how many there are in each leaf, and the highest level.
        """
        owner = np.arange(self.leaves)

        def join(node: int) -> tuple[list[int], int, int]:
            if node < 0:
                return [~node], int(people[~node]), int(levels[~node])
            (left, n, p), (right, m, q) = map(join, self.children[node].tolist())
            if n < _ROOM * p or m < _ROOM * q:
                owner[left + right] = owner[left[0]]
            return left + right, n + m, max(p, q)

        if len(self.thresholds):
            join(0)
        return np.unique(owner, return_inverse=True)[1].astype(np.int64)


def grow_cuts(points: Floats, records: int, cell: int, least: int) -> Cuts:
    """Cut a sample of ``records`` records into leaves of about ``cell``, at least ``least``."""
    share = records / max(len(points), 1)
    directions: list[Floats] = []
    thresholds: list[float] = []
    children: list[list[int]] = []
    leaves = 0

    def cut(rows: Ints) -> int:
        nonlocal leaves
        expected = len(rows) * share
        if expected > 1.5 * cell and expected / 2 >= least and len(rows) > _LEAST:
            direction = _widest(points[rows])
            along = _along(points[rows], direction)
            parts = max(2, round(expected / cell))  # unequal halves, so that leaves are alike
            threshold = float(np.quantile(along, (parts // 2) / parts, method="lower"))
            left = along <= threshold
            if left.all() and (along < threshold).any():  # many have the largest value
                threshold = float(along[along < threshold].max())
                left = along <= threshold
            if not left.all():
                node = len(directions)
                directions.append(direction)
                thresholds.append(threshold)
                children.append([0, 0])
                children[node] = [cut(rows[left]), cut(rows[~left])]
                return node
        leaves += 1
        return ~(leaves - 1)

    with linear_algebra_on_one:
        cut(np.arange(len(points)))
    shape = (-1, points.shape[1])
    tree = np.array(children, dtype=np.int64).reshape(-1, 2)
    return Cuts(np.array(directions).reshape(shape), np.array(thresholds), tree, leaves)


def _widest(points: Floats) -> Floats:
    """Return the direction of the largest variance, so rounded that all machines agree on it."""
    covariance = np.cov(points.T).reshape(points.shape[1], -1)
    direction = np.linalg.eigh(covariance)[1][:, -1]
    direction = direction * np.sign(direction[np.abs(direction).argmax()])
    return np.round(direction, 6)


def _along(points: Floats, direction: Floats) -> Floats:
    """Return ``points @ direction``, added up in one order: the same bits in a batch of any
    size.
    """
    along = points[:, 0] * direction[0]
    for place in range(1, points.shape[1]):
        along += points[:, place] * direction[place]
    return along
