"""Groups laid out for the kernels: members, centroids, and how they change.

The records of a group lie together, one coordinate after the other, with room to grow, so that
looking at two groups reads two short stretches of memory. Plain loops and no array expressions:
they compile in a fraction of the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tulle._jit import inlined, int64, part
from tulle._types import Floats, Ints


class GridCells(NamedTuple):
    """Groups with their records, and room for more; coordinate j of member i of group g is
    ``data[d * start[g] + j * room[g] + i]``, its row ``rows[start[g] + i]``."""

    data: Floats
    rows: Ints
    levels: Ints
    start: Ints
    room: Ints
    size: Ints
    need: Ints  # the largest level in the group
    centres: Floats
    own: Floats  # squared distance of each member to its centroid
    scratch: Floats  # three rows as long as the largest room


@inlined
def measure_from(
    cells: GridCells, g: int, point: Floats, at_point: int, step: int, out: Floats
) -> None:
    """Compute squared distances of the members of a group to a point given by separate coordinates.

    Four sums at a time, which do not wait for each other; what is written for empty places means
    nothing. Unsigned places need no check for counting from the end.
    """
    d = cells.centres.shape[1]
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    room, stride = np.uint64(cells.room[g]), np.uint64(step)
    data = cells.data
    for i in range(0, cells.size[g], 4):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        at, from_point = np.uint64(d * cells.start[g] + i), np.uint64(at_point)
        for _ in range(d):
            value = point[from_point]
            d0, d1 = data[at] - value, data[at + one] - value
            d2, d3 = data[at + two] - value, data[at + three] - value
            s0 += d0 * d0
            s1 += d1 * d1
            s2 += d2 * d2
            s3 += d3 * d3
            at += room
            from_point += stride
        out[i], out[i + 1], out[i + 2], out[i + 3] = s0, s1, s2, s3


@inlined
def measure(cells: GridCells, g: int, centre: int, out: Floats) -> None:
    """Compute squared distances of the members of a group to the centroid of a group."""
    measure_from(cells, g, cells.centres[centre], int64(0), int64(1), out)


@inlined
def measure_member(cells: GridCells, a: int, x: int, b: int, out: Floats) -> None:
    """Compute squared distances of member x of group a to the members of group b."""
    at_x = cells.centres.shape[1] * cells.start[a] + x
    measure_from(cells, b, cells.data, at_x, cells.room[a], out)


@part
def update(cells: GridCells, g: int) -> None:
    """Recompute what follows from the members of a group."""
    highest = 0
    for i in range(cells.start[g], cells.start[g] + cells.size[g]):
        if cells.levels[i] > highest:
            highest = cells.levels[i]
    cells.need[g] = highest
    measure(cells, g, g, cells.own[cells.start[g] :])


@part
def recentre(cells: GridCells, g: int) -> float:
    """Recompute the centroid from the members; return by how much the squared error falls."""
    d, size = cells.centres.shape[1], cells.size[g]
    shift = 0.0
    for j in range(d):
        at = d * cells.start[g] + j * cells.room[g]
        total = 0.0
        for i in range(at, at + size):
            total += cells.data[i]
        shift += (total / size - cells.centres[g, j]) ** 2
        cells.centres[g, j] = total / size
    update(cells, g)
    return shift * size


@inlined
def may_leave(cells: GridCells, g: int, member: int) -> bool:
    """Return whether a group stays valid without one of its members."""
    left = cells.size[g] - 1
    if cells.need[g] <= left:
        return left > 0
    for i in range(cells.size[g]):
        if i != member and cells.levels[cells.start[g] + i] > left:
            return False
    return left > 0


@part
def change_places(cells: GridCells, a: int, x: int, b: int, y: int) -> None:
    """Exchange two records, without updating what follows from them."""
    d = cells.centres.shape[1]
    at_x, at_y = d * cells.start[a] + x, d * cells.start[b] + y
    for _ in range(d):
        cells.data[at_x], cells.data[at_y] = cells.data[at_y], cells.data[at_x]
        at_x += cells.room[a]
        at_y += cells.room[b]
    at_x, at_y = cells.start[a] + x, cells.start[b] + y
    cells.rows[at_x], cells.rows[at_y] = cells.rows[at_y], cells.rows[at_x]
    cells.levels[at_x], cells.levels[at_y] = cells.levels[at_y], cells.levels[at_x]


@part
def swap(cells: GridCells, a: int, x: int, b: int, y: int) -> None:
    """Swap member x of group a and member y of group b."""
    d = cells.centres.shape[1]
    at_x, at_y = d * cells.start[a] + x, d * cells.start[b] + y
    for j in range(d):
        shift = cells.data[at_y] - cells.data[at_x]
        cells.centres[a, j] += shift / cells.size[a]
        cells.centres[b, j] -= shift / cells.size[b]
        at_x += cells.room[a]
        at_y += cells.room[b]
    change_places(cells, a, x, b, y)
    update(cells, a)
    update(cells, b)


@part
def move(cells: GridCells, a: int, x: int, b: int) -> None:
    """Move member x of group a to group b; the last member of a takes its place."""
    d = cells.centres.shape[1]
    last, end = cells.size[a] - 1, cells.size[b]
    at_a, at_b = d * cells.start[a], d * cells.start[b]
    for j in range(d):
        value = cells.data[at_a + x]
        cells.data[at_b + end] = value
        cells.data[at_a + x] = cells.data[at_a + last]
        if last > 0:
            cells.centres[a, j] += (cells.centres[a, j] - value) / last
        cells.centres[b, j] += (value - cells.centres[b, j]) / (end + 1)
        at_a += cells.room[a]
        at_b += cells.room[b]
    at_a, at_b = cells.start[a], cells.start[b]
    cells.rows[at_b + end] = cells.rows[at_a + x]
    cells.rows[at_a + x] = cells.rows[at_a + last]
    cells.levels[at_b + end] = cells.levels[at_a + x]
    cells.levels[at_a + x] = cells.levels[at_a + last]
    cells.size[a] = last
    cells.size[b] = end + 1
    update(cells, a)
    update(cells, b)
