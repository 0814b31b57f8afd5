"""Kernels by which groups exchange members, dissolve and split while the squared error falls.

The records of a group lie together, one coordinate after the other, with room to grow, so that
looking at two groups reads two short stretches of memory. Plain loops and no array expressions:
they compile in a fraction of the time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tulle._jit import inlined, int64, kernel, part
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


# Two groups exchange members. With own(x) and other(x) the squared distances of x to the centroid
# of its own and of the other group, the gain of
#
# * swapping x in A with y in B is own(x) - other(x) + own(y) - other(y) + |x-y|^2 (1/|A| + 1/|B|),
# * moving x from A to B is own(x) |A|/(|A|-1) - other(x) |B|/(|B|+1).

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


# The number of groups changes: some dissolve, some are split.


@inlined
def place_cost(cells: GridCells, a: int, x: int, centre: Floats, size: int) -> float:
    """Compute what member x of group a adds to the error of a group with that centroid and size."""
    at = len(centre) * cells.start[a] + x
    cost = 0.0
    for j in range(len(centre)):
        difference = cells.data[at] - centre[j]
        cost += difference * difference
        at += cells.room[a]
    return cost * size / (size + 1.0)


@kernel
def reach_out(cells: GridCells, groups: Ints, near: Ints) -> None:
    """List the groups nearest to the members, not to the centre, of some groups.

    A group that bridges two clusters has its centre between them, where nobody is.
    """
    width = near.shape[1]
    for a in groups:
        listed = 0
        for x in range(cells.size[a]):
            least, best = np.inf, -1
            for b in range(len(near)):
                if cells.size[b] > 0 and b != a:
                    cost = place_cost(cells, a, x, cells.centres[b], cells.size[b])
                    if cost < least:
                        least, best = cost, b
            known = listed == width or best < 0
            for i in range(listed):
                known = known or near[a, i] == best
            if not known:
                near[a, listed] = best
                listed += 1
        for i in range(listed, width):
            near[a, i] = -1


@part
def dissolve(
    cells: GridCells, a: int, near: Ints, sizes: Ints, centres: Floats, least: float
) -> float:
    """Send every member to the best group nearby, if the error falls; return the gain.

    ``sizes`` and ``centres`` are room for the groups near as they would become.
    """
    width, d = centres.shape
    gain = 0.0
    for x in range(cells.size[a]):
        gain += cells.own[cells.start[a] + x]
    for i in range(width):
        sizes[i] = cells.size[near[i]] if near[i] >= 0 else 0
        for j in range(d):
            centres[i, j] = cells.centres[near[i], j]
    for x in range(cells.size[a]):
        level = cells.levels[cells.start[a] + x]
        least_cost, best = np.inf, -1
        for i in range(width):
            if sizes[i] > 0 and sizes[i] < cells.room[near[i]] and sizes[i] + 1 >= level:
                cost = place_cost(cells, a, x, centres[i], sizes[i])
                if cost < least_cost:
                    least_cost, best = cost, i
        gain -= least_cost
        if gain <= least:
            return 0.0
        sizes[best] += 1
        at = d * cells.start[a] + x
        for j in range(d):
            centres[best, j] += (cells.data[at] - centres[best, j]) / sizes[best]
            at += cells.room[a]
        cells.scratch[1, x] = best
    for x in range(cells.size[a] - 1, -1, -1):
        move(cells, a, x, near[int(cells.scratch[1, x])])
    return gain


@part
def split(cells: GridCells, a: int, b: int) -> float:
    """Split a group into two valid ones, the second in the free place b; return the gain.

    The member farthest from the centroid takes its nearest until they are a valid group.
    """
    count = cells.size[a]
    away = cells.scratch[0]
    seed = int64(0)
    for i in range(count):
        if cells.own[cells.start[a] + i] > cells.own[cells.start[a] + seed]:
            seed = i
    measure_member(cells, a, seed, a, away)
    need, size = 1, 0
    while size < need and size < count:
        nearest = -1
        for i in range(count):
            if away[i] >= 0.0 and (nearest < 0 or away[i] < away[nearest]):
                nearest = i
        away[nearest] = -1.0
        need = max(need, cells.levels[cells.start[a] + nearest])
        size += 1
    rest = 1
    for i in range(count):
        if away[i] >= 0.0:
            rest = max(rest, cells.levels[cells.start[a] + i])
    if size < need or count - size < rest or size > cells.room[b]:
        return 0.0
    for i in range(count - 1, -1, -1):
        if away[i] < 0.0:
            move(cells, a, i, b)
    gain = 0.0
    for j in range(cells.centres.shape[1]):
        gain += (cells.centres[a, j] - cells.centres[b, j]) ** 2
    return gain * cells.size[a] * size / count


@kernel
def restructure(
    cells: GridCells, near: Ints, changed: Ints, turn: int, least: float, free: Ints, idle: int
) -> float:
    """Dissolve groups that gain nothing by standing alone, and split those that can be split.

    ``free`` holds ``idle`` numbers of empty groups, and has room for all.
    """
    total, width = 0.0, near.shape[1]
    sizes, centres = np.empty(width, int64), np.empty((width, cells.centres.shape[1]))
    for a in range(len(near)):
        if cells.size[a] < 2:
            continue
        gain = 0.0
        if changed[a] >= turn - 1:
            gain = dissolve(cells, a, near[a], sizes, centres, least)
        if gain > 0.0:
            free[idle] = a
            idle += 1
            for i in range(width):
                if near[a, i] >= 0:
                    changed[near[a, i]] = turn
        elif idle > 0 and cells.size[a] > cells.need[a]:
            b = free[idle - 1]
            gain = split(cells, a, b)
            if cells.size[b] > 0:
                idle -= 1
                at = width - 1  # a list may still name b from an earlier life
                for i in range(width):
                    if near[a, i] == b:
                        at = i
                near[a, at] = b
                for i in range(width):
                    near[b, i] = near[a, i]
                near[b, at] = a
                changed[a] = turn
                changed[b] = turn
        total += gain
    return total
