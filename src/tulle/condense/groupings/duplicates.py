"""Records that are all alike: whole groups of them cost nothing and need no search.

Tables with few distinct values have places where thousands of records lie. They would fill each
other's lists of neighbours; a group and a bit at each place is all that a search can use.
"""

from __future__ import annotations

import numpy as np

from tulle.moments import Floats, Ints


def set_aside(matrix: Floats, levels: Ints) -> tuple[Ints, int]:
    """Groups of records that are all alike, -1 for the records left to search; how many groups.

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
    """An order in which equal rows lie together, high levels first; the long runs in it."""
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
