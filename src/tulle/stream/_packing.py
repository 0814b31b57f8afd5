"""Cutting the means of all groups into leaves of one size, which is how the index is packed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle._jit import inlined, kernel


@kernel
def halve_all(
    points: Any, order: Any, edges: Any, values: Any, spare: Any, sums: Any, parts: Any
) -> None:
    """Cut points in halves repeatedly, always across the widest axis of a part.

    Brings ``order`` (all rows of the points, by age) into that of leaves, and writes into
    ``edges`` where each leaf begins and ends. The axis is that of the largest variance: outliers
    must not decide where to cut. Of points with the same value the older ones go first, which
    lets the search skip younger ones. The rest is working memory: ``parts`` (depth, 3) holds
    start, end and leaves of what is still to be cut.
    """
    done = depth = 0
    edges[0] = 0
    parts[0, 0], parts[0, 1], parts[0, 2] = 0, len(order), len(edges) - 1
    while depth >= 0:
        start, end, leaves = parts[depth, 0], parts[depth, 1], parts[depth, 2]
        if leaves == 1:
            done += 1
            edges[done] = end
            depth -= 1
            continue
        lower = (leaves + 1) // 2
        middle = start + (end - start) * lower // leaves
        widest = _widest(points, order, start, end, sums)
        for place in range(start, end):
            values[place] = points[order[place], widest]
        value = _selected(values, start, end, middle)
        _part(points, order, start, middle, end, widest, value, spare)
        parts[depth, 0], parts[depth, 2] = middle, leaves - lower
        depth += 1
        parts[depth, 0], parts[depth, 1], parts[depth, 2] = start, middle, lower


@inlined
def _widest(points: Any, order: Any, start: int, end: int, sums: Any) -> int:
    """Return the axis of the largest variance."""
    dimensions = points.shape[1]
    for k in range(dimensions):
        sums[0, k] = sums[1, k] = 0.0
    first = order[start]
    for place in range(start, end):
        row = order[place]
        for k in range(dimensions):
            offset = points[row, k] - points[first, k]
            sums[0, k] += offset
            sums[1, k] += offset * offset
    widest = 0
    largest = -1.0
    for k in range(dimensions):
        variance = sums[1, k] - sums[0, k] * sums[0, k] / (end - start)
        if variance > largest:
            largest = variance
            widest = k
    return widest


@inlined
def _selected(values: Any, start: int, end: int, rank: int) -> Any:
    """Return the value of this rank (Hoare's selection); the values are reordered in place."""
    last = end - 1
    while start < last:
        pivot = values[(start + last) // 2]
        low, high = start, last
        while low <= high:
            while values[low] < pivot:
                low += 1
            while values[high] > pivot:
                high -= 1
            if low <= high:
                values[low], values[high] = values[high], values[low]
                low += 1
                high -= 1
        if rank <= high:
            last = high
        elif rank >= low:
            start = low
        else:
            break
    return values[rank]


@inlined
def _part(
    points: Any, order: Any, start: int, middle: int, end: int, axis: int, value: Any, spare: Any
) -> None:
    """Put the points below a value first, then as many equal ones as fit; keep the order otherwise.

    Without branches, which no processor could foresee: every row is written to either side.
    """
    equal: Any = middle - start
    for place in range(start, end):
        equal -= np.int64(points[order[place], axis] < value)
    low: Any = start
    high: Any = 0
    for place in range(start, end):
        row = order[place]
        here = points[row, axis]
        tied = np.int64(here == value) & np.int64(equal > 0)
        first = np.int64(here < value) | tied
        equal -= tied
        order[low] = row
        spare[high] = row
        low += first
        high += 1 - first
    for place in range(high):
        order[middle + place] = spare[place]
