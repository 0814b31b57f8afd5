"""Kernels by which two groups exchange members as long as the squared error falls.

With own(x) and other(x) the squared distances of x to the centroid of its own and of the other
group, the gain of

* swapping x in A with y in B is own(x) - other(x) + own(y) - other(y) + |x-y|^2 (1/|A| + 1/|B|),
* moving x from A to B is own(x) |A|/(|A|-1) - other(x) |B|/(|B|+1).
"""

from __future__ import annotations

import math

import numpy as np

from tulle._jit import int64, kernel, part
from tulle._types import Floats, Ints
from tulle.condense.groupings._cell_kernels import (
    GridCells,
    change_places,
    may_leave,
    measure,
    measure_member,
    move,
    recentre,
    swap,
)

MANY = 32  # members of groups that are first traded many at once
VERY_MANY = 256  # and of those in which one more swap gains next to nothing


@part
def best_swap(cells: GridCells, a: int, b: int, best: float) -> tuple[float, int, int]:
    """Find the best swap above a gain; expects the distances to the other centroid in the scratch.

    Along the line through both centroids the gain is known from the distances, and across it
    |x-y|^2 is at most twice the squared distances to the line: most members need no closer look.
    """
    other_a, other_b, row = cells.scratch[0], cells.scratch[1], cells.scratch[2]
    start_a, start_b = cells.start[a], cells.start[b]
    n_a, n_b = cells.size[a], cells.size[b]
    weight = 1.0 / n_a + 1.0 / n_b
    square = 1e-300
    for j in range(cells.centres.shape[1]):
        square += (cells.centres[a, j] - cells.centres[b, j]) ** 2
    twice = 2.0 * math.sqrt(square)
    low, high, off = np.inf, -np.inf, 0.0
    for y in range(n_b):
        own = cells.own[start_b + y]
        along = (other_b[y] - own - square) / twice
        low, high = min(low, along), max(high, along)
        off = max(off, own - along * along)
    found_x, found_y = -1, -1
    for x in range(n_a):
        lean = cells.own[start_a + x] - other_a[x]
        along = (lean - square) / twice
        near, far = along - low, along - high
        bound = max((twice + weight * near) * near, (twice + weight * far) * far)
        bound += 2.0 * weight * (other_a[x] - along * along + off)
        if bound <= best or cells.levels[start_a + x] > n_b:
            continue
        measure_member(cells, a, x, b, row)
        for y in range(n_b):
            gain = lean + cells.own[start_b + y] - other_b[y] + weight * row[y]
            if gain > best and cells.levels[start_b + y] <= n_a:
                best, found_x, found_y = gain, x, y
    return best, found_x, found_y


@part
def best_move(cells: GridCells, a: int, b: int, other: Floats, best: float) -> tuple[float, int]:
    """Find the best move from a to b above a gain."""
    n_a, n_b = cells.size[a], cells.size[b]
    found = -1
    if n_a < 2 or n_b >= cells.room[b]:
        return best, found
    leave, enter = n_a / (n_a - 1.0), n_b / (n_b + 1.0)
    for x in range(n_a):
        at = cells.start[a] + x
        gain = leave * cells.own[at] - enter * other[x]
        if gain > best and cells.levels[at] <= n_b + 1 and may_leave(cells, a, x):
            best, found = gain, x
    return best, found


@part
def lean(cells: GridCells, a: int, b: int, out: Floats) -> None:
    """Compute by how much each member of a is nearer to the centroid of b; -inf where it may not
    go.
    """
    measure(cells, a, b, out)
    for x in range(cells.size[a]):
        at = cells.start[a] + x
        out[x] = cells.own[at] - out[x] if cells.levels[at] <= cells.size[b] else -np.inf


@part
def trade(cells: GridCells, a: int, b: int, least: float) -> float:
    """Swap the members that lean most to the other group, many at once; return the gain.

    In large groups one member hardly moves the centroid, and looking for swaps one by one takes
    time that grows with the square of their size.
    """
    from_a, from_b = cells.scratch[0], cells.scratch[1]
    total = 0.0
    while True:
        lean(cells, a, b, from_a)
        lean(cells, b, a, from_b)
        gain = 0.0
        while True:
            x, y = int64(0), int64(0)
            for i in range(1, cells.size[a]):
                if from_a[i] > from_a[x]:
                    x = i
            for i in range(1, cells.size[b]):
                if from_b[i] > from_b[y]:
                    y = i
            more = from_a[x] + from_b[y]
            if more <= least:
                break
            change_places(cells, a, x, b, y)
            from_a[x], from_b[y] = -np.inf, -np.inf
            gain += more
        if gain == 0.0:
            return total
        total += gain + recentre(cells, a) + recentre(cells, b)


@part
def exchange(cells: GridCells, a: int, b: int, least: float) -> float:
    """Apply the best swap or move between two groups while one gains; return the gain."""
    total = 0.0
    if min(cells.size[a], cells.size[b]) >= MANY:
        total = trade(cells, a, b, least)
    while True:
        measure(cells, a, b, cells.scratch[0])
        measure(cells, b, a, cells.scratch[1])
        gain, x, y = least, -1, -1
        if min(cells.size[a], cells.size[b]) < VERY_MANY:
            gain, x, y = best_swap(cells, a, b, least)
        gain, out = best_move(cells, a, b, cells.scratch[0], gain)
        gain, back = best_move(cells, b, a, cells.scratch[1], gain)
        if back >= 0:
            move(cells, b, back, a)
        elif out >= 0:
            move(cells, a, out, b)
        elif x >= 0:
            swap(cells, a, x, b, y)
        else:
            return total
        total += gain


@kernel
def sweep(
    cells: GridCells, near: Ints, width: int, changed: Ints, turn: int, least: float
) -> float:
    """Exchange members with the ``width`` nearest groups, if one changed since the last sweep."""
    total = 0.0
    for a in range(len(near)):
        for i in range(width):
            b = near[a, i]
            if b < 0 or cells.size[a] == 0 or cells.size[b] == 0:
                continue
            if changed[a] < turn - 1 and changed[b] < turn - 1:
                continue
            twin = False  # the pair was looked at from the other side
            if b < a:
                for j in range(width):
                    twin = twin or near[b, j] == a
            if twin:
                continue
            gain = exchange(cells, a, b, least)
            if gain > 0.0:
                changed[a] = turn
                changed[b] = turn
                total += gain
    return total
