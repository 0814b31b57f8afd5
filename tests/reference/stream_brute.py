"""A stream with a linear search in double precision over every group, compiled."""

from __future__ import annotations

from typing import Any

import numba

from tulle.stream._kernels import _split, add


@numba.njit
def absorb(groups: Any, work: Any, records: Any, levels: Any, size: int, tie: float) -> int:
    """Condenses all records, for which the arrays must have room; the number of groups."""
    for row in range(len(records)):
        best, best_distance = -1, 1e300
        for group in range(size):
            if groups.counts[group] < levels[row] - 1:
                continue
            distance = 0.0
            for k in range(records.shape[1]):
                offset = records[row, k] - groups.means[group, k]
                distance += offset * offset
            if distance <= tie:
                distance = 0.0
            if distance < best_distance:
                best, best_distance = group, distance
        add(groups, best, records[row], levels[row], 1)
        count = groups.counts[best]
        if count * count >= 2 * groups.level_sums[best]:
            _split(groups, work, best, size)
            size += 1
    return size
