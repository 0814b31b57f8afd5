"""Joining groups that fall short of a demand to their nearest ones, until none does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tulle._types import Flags, Floats, Ints

_CELLS = 1_000_000  # distances at a time


def join_groups(matrix: Floats, groups: Ints, short: Callable[[Ints], Flags]) -> Ints:
    """Join groups that fall short to their nearest ones, until none does or one is left.

    Every round joins all such groups at once, so there are few rounds.
    """
    while True:
        lacking = np.flatnonzero(short(groups))
        if not len(lacking) or int(groups.max()) == 0:
            return groups
        groups = _joined(groups, lacking, _nearest(matrix, groups, lacking))


def _nearest(matrix: Floats, groups: Ints, some: Ints) -> Ints:
    """Return, for some groups, the other group with the nearest mean."""
    counts = np.bincount(groups)
    sums = [np.bincount(groups, weights=column) for column in matrix.T]
    means = np.stack(sums, axis=1) / counts[:, None]
    squares = (means**2).sum(axis=1)
    nearest = np.empty(len(some), dtype=np.int64)
    step = max(1, _CELLS // len(means))
    for first in range(0, len(some), step):
        part = some[first : first + step]
        away = squares - 2 * means[part] @ means.T  # the own square is the same in a row
        away[np.arange(len(part)), part] = np.inf
        nearest[first : first + step] = away.argmin(axis=1)
    return nearest


def _joined(groups: Ints, first: Ints, second: Ints) -> Ints:
    """Return the groups with each of the first joined to its second, numbered without gaps."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = int(groups.max()) + 1
    links = coo_array((np.ones(len(first)), (first, second)), shape=(size, size))
    _, parts = connected_components(links, directed=False)
    return np.asarray(parts, dtype=np.int64)[groups]
