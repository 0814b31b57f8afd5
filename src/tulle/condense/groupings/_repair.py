"""What every method ends with: strays join, groups that are too small merge."""

from __future__ import annotations

import numpy as np

from tulle._types import Floats, Ints


def squared(matrix: Floats, point: Floats) -> Floats:
    """Compute squared distances of all rows from a point."""
    offsets = matrix - point
    return np.einsum("ij,ij->i", offsets, offsets)


def merge_small(matrix: Floats, groups: Ints, levels: Ints) -> Ints:
    """Merge groups that are smaller than a level in them into their nearest, until none is."""
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
    """Return the same groups, numbered 0, 1, ... without gaps.

    >>> without_gaps(np.array([7, 3, 7]))
    array([1, 0, 1])
    """
    return (np.cumsum(np.bincount(groups) > 0) - 1)[groups].astype(np.int64)


def squared_error(matrix: Floats, groups: Ints) -> float:
    """Compute SSQ: the squared distances of all records to the mean of their group.

    >>> squared_error(np.array([[0.0], [2.0], [7.0]]), np.array([0, 0, 1]))
    2.0
    """
    sizes = np.maximum(np.bincount(groups), 1)
    total = 0.0
    for column in matrix.T:
        deviation = column - (np.bincount(groups, column) / sizes)[groups]
        total += float(np.einsum("i,i->", deviation, deviation))  # a product would start threads
    return total


# Records that are all alike: whole groups of them cost nothing and need no search. Tables with
# few distinct values have places where thousands of records lie. They would fill each other's
# lists of neighbours; a group and a bit at each place is all that a search can use.


def set_aside(matrix: Floats, levels: Ints) -> tuple[Ints, int]:
    """Return groups of identical records (-1 for the records left to search) and how many groups.

    At each place enough records stay for one valid group, and fewer than for two.
    """
    groups = np.full(len(matrix), -1, dtype=np.int64)
    order, starts, stops = _runs(matrix, levels)
    number = 0
    for start, stop in zip(starts.tolist(), stops.tolist()):
        level = int(levels[order[start]])  # the highest that is left at this place
        while stop - start >= 2 * level:
            groups[order[start : start + level]] = number
            number += 1
            start += level
            level = int(levels[order[start]])
    left = int(np.count_nonzero(groups < 0))
    if left < 2 * int(levels.max()):  # too few for those who ask for most
        return np.full_like(groups, -1), 0
    return groups, number


def _runs(matrix: Floats, levels: Ints) -> tuple[Ints, Ints, Ints]:
    """Return an order in which equal rows lie together, high levels first, and the long runs in
    it.
    """
    bits = (matrix + 0.0).view(np.uint64)  # adding zero makes -0.0 equal to 0.0
    mixed = np.zeros(len(matrix), dtype=np.uint64)
    for column in bits.T:
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    order = np.lexsort((-levels, mixed))
    near_twins = mixed[order][1:] == mixed[order][:-1]
    change = np.flatnonzero(~near_twins) + 1
    starts = np.concatenate([[0], change])
    stops = np.concatenate([change, [len(order)]])
    long = stops - starts >= 2 * levels[order[starts]]
    starts, stops = starts[long], stops[long]
    alike = [
        bool((matrix[order[start:stop]] == matrix[order[start]]).all())
        for start, stop in zip(starts, stops)
    ]
    return order, starts[alike], stops[alike]
