"""What every method ends with: strays join, groups that are too small merge."""

from __future__ import annotations

import numpy as np

from tulle.moments import Floats, Ints


def squared(matrix: Floats, point: Floats) -> Floats:
    """Squared distances of all rows from a point."""
    offsets = matrix - point
    return np.einsum("ij,ij->i", offsets, offsets)


def merge_small(matrix: Floats, groups: Ints, levels: Ints) -> Ints:
    """Merges groups that are smaller than a level in them into their nearest, until none is."""
    groups = groups.copy()
    while True:
        names, groups = np.unique(groups, return_inverse=True)
        sizes = np.bincount(groups)
        demands = np.zeros(len(names), dtype=np.int64)
        np.maximum.at(demands, groups, levels)
        small = np.flatnonzero(sizes < demands)
        if len(small) == 0 or len(names) == 1:
            return groups
        means = np.zeros((len(names), matrix.shape[1]))
        np.add.at(means, groups, matrix)
        means /= sizes[:, None]
        one = small[np.argmin(sizes[small])]
        apart = squared(means, means[one])
        apart[one] = np.inf
        groups[groups == one] = np.argmin(apart)


def without_gaps(groups: Ints) -> Ints:
    """The same groups, numbered 0, 1, ... without gaps.

    >>> without_gaps(np.array([7, 3, 7]))
    array([1, 0, 1])
    """
    return (np.cumsum(np.bincount(groups) > 0) - 1)[groups].astype(np.int64)


def squared_error(matrix: Floats, groups: Ints) -> float:
    """SSQ: the squared distances of all records to the mean of their group.

    >>> squared_error(np.array([[0.0], [2.0], [7.0]]), np.array([0, 0, 1]))
    2.0
    """
    sizes = np.maximum(np.bincount(groups), 1)
    total = 0.0
    for column in matrix.T:
        deviation = column - (np.bincount(groups, column) / sizes)[groups]
        total += float(np.einsum("i,i->", deviation, deviation))  # a product would start threads
    return total
