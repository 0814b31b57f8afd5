"""Kernels that change the number of groups: dissolve, split."""

from __future__ import annotations

import numpy as np

from tulle._jit import inlined, int64, kernel, part
from tulle._types import Floats, Ints
from tulle.condense.groupings._cell_kernels import GridCells, measure_member, move


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
