"""Kernels that lower the squared error of a grouping: exchange members, dissolve, split.

The records of a group lie together, one coordinate after the other, with room to grow, so that
looking at two groups reads two short stretches of memory. With own(x) and other(x) the squared
distances of x to the centroid of its own and of the other group, the gain of

* swapping x in A with y in B is own(x) - other(x) + own(y) - other(y) + |x-y|^2 (1/|A| + 1/|B|),
* moving x from A to B is own(x) |A|/(|A|-1) - other(x) |B|/(|B|+1).

Plain loops and no array expressions: they compile in a fraction of the time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tulle.jit import kernel
from tulle.moments import Floats, Ints


class Cells(NamedTuple):
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


@kernel
def measure(cells: Cells, g: int, centre: int, out: Floats) -> None:
    """Squared distances of the members of a group to the centroid of a group.

    Four sums at a time, which do not wait for each other; what is written for empty places means
    nothing. Unsigned places need no check for counting from the end.
    """
    d = cells.centres.shape[1]
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    room = np.uint64(cells.room[g])
    data = cells.data
    for i in range(0, cells.size[g], 4):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        at = np.uint64(d * cells.start[g] + i)
        for j in range(d):
            value = cells.centres[centre, j]
            d0, d1 = data[at] - value, data[at + one] - value
            d2, d3 = data[at + two] - value, data[at + three] - value
            s0 += d0 * d0
            s1 += d1 * d1
            s2 += d2 * d2
            s3 += d3 * d3
            at += room
        out[i], out[i + 1], out[i + 2], out[i + 3] = s0, s1, s2, s3


@kernel
def measure_member(cells: Cells, a: int, x: int, b: int, out: Floats) -> None:
    """Squared distances of member x of group a to the members of group b, as above."""
    d = cells.centres.shape[1]
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    room, room_a = np.uint64(cells.room[b]), np.uint64(cells.room[a])
    data = cells.data
    for i in range(0, cells.size[b], 4):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        at, at_x = np.uint64(d * cells.start[b] + i), np.uint64(d * cells.start[a] + x)
        for _ in range(d):
            value = data[at_x]
            d0, d1 = data[at] - value, data[at + one] - value
            d2, d3 = data[at + two] - value, data[at + three] - value
            s0 += d0 * d0
            s1 += d1 * d1
            s2 += d2 * d2
            s3 += d3 * d3
            at += room
            at_x += room_a
        out[i], out[i + 1], out[i + 2], out[i + 3] = s0, s1, s2, s3


@kernel
def update(cells: Cells, g: int) -> None:
    """What follows from the members of a group, again."""
    highest = 0
    for i in range(cells.start[g], cells.start[g] + cells.size[g]):
        if cells.levels[i] > highest:
            highest = cells.levels[i]
    cells.need[g] = highest
    measure(cells, g, g, cells.own[cells.start[g] :])


@kernel
def may_leave(cells: Cells, g: int, member: int) -> bool:
    """Whether a group stays valid without one of its members."""
    left = cells.size[g] - 1
    if cells.need[g] <= left:
        return left > 0
    for i in range(cells.size[g]):
        if i != member and cells.levels[cells.start[g] + i] > left:
            return False
    return left > 0


@kernel
def swap(cells: Cells, a: int, x: int, b: int, y: int) -> None:
    """Member x of group a and member y of group b change places."""
    d = cells.centres.shape[1]
    at_x, at_y = d * cells.start[a] + x, d * cells.start[b] + y
    for j in range(d):
        shift = cells.data[at_y] - cells.data[at_x]
        cells.data[at_x], cells.data[at_y] = cells.data[at_y], cells.data[at_x]
        cells.centres[a, j] += shift / cells.size[a]
        cells.centres[b, j] -= shift / cells.size[b]
        at_x += cells.room[a]
        at_y += cells.room[b]
    at_x, at_y = cells.start[a] + x, cells.start[b] + y
    cells.rows[at_x], cells.rows[at_y] = cells.rows[at_y], cells.rows[at_x]
    cells.levels[at_x], cells.levels[at_y] = cells.levels[at_y], cells.levels[at_x]
    update(cells, a)
    update(cells, b)


@kernel
def move(cells: Cells, a: int, x: int, b: int) -> None:
    """Member x of group a goes to group b; the last member of a takes its place."""
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


@kernel
def best_swap(cells: Cells, a: int, b: int, best: float) -> tuple[float, int, int]:
    """The best swap above a gain; expects the distances to the other centroid in the scratch.

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


@kernel
def best_move(cells: Cells, a: int, b: int, other: Floats, best: float) -> tuple[float, int]:
    """The best move from a to b above a gain."""
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


@kernel
def exchange(cells: Cells, a: int, b: int, least: float) -> float:
    """Applies the best swap or move between two groups while one gains; returns the gain."""
    total = 0.0
    while True:
        measure(cells, a, b, cells.scratch[0])
        measure(cells, b, a, cells.scratch[1])
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
def sweep(cells: Cells, near: Ints, width: int, changed: Ints, turn: int, least: float) -> float:
    """Exchanges with the ``width`` nearest groups, if one changed since the last sweep."""
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


@kernel
def place_cost(cells: Cells, a: int, x: int, centre: Floats, size: int) -> float:
    """What member x of group a adds to the error of a group with that centroid and size."""
    at = len(centre) * cells.start[a] + x
    cost = 0.0
    for j in range(len(centre)):
        difference = cells.data[at] - centre[j]
        cost += difference * difference
        at += cells.room[a]
    return cost * size / (size + 1.0)


@kernel
def reach_out(cells: Cells, groups: Ints, near: Ints) -> None:
    """Lists the groups nearest to the members, not to the centre, of some groups.

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


@kernel
def dissolve(cells: Cells, a: int, near: Ints, sizes: Ints, centres: Floats, least: float) -> float:
    """Sends every member to the best group near, if the error falls; returns the gain.

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


@kernel
def split(cells: Cells, a: int, b: int) -> float:
    """Parts a group into two valid ones, the second in the free place b; returns the gain.

    The member farthest from the centroid takes its nearest until they are a valid group.
    """
    count = cells.size[a]
    away = cells.scratch[0]
    seed = 0
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
    cells: Cells, near: Ints, changed: Ints, turn: int, least: float, free: Ints, idle: int
) -> float:
    """Dissolves groups that gain nothing by standing alone, splits those that can be split.

    ``free`` holds ``idle`` numbers of empty groups, and has room for all.
    """
    total = 0.0
    width = near.shape[1]
    sizes = np.empty(width, dtype=np.int64)
    centres = np.empty((width, cells.centres.shape[1]))
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
