"""The search in the index over moving means: a tree of boxes, scanned in single precision.

Leaves hold up to ``LANES`` means as columns of float32, inner nodes as many boxes of their
children (``_boxes.py`` keeps them up to date, ``tree.py`` builds and splits them). Single
precision only decides what need not be looked at: every candidate within :func:`_threshold` is
computed again in double precision, so the answer is that of a linear search.

Why the threshold is safe: with u = 2**-24, rounding record and mean to float32 moves each offset
by at most u (2 |x_k| + 2 |t_k|), and adding d squares by a factor of at most 1 + (d + 3) u. So a
mean within the distance r of the record has a float32 distance of at most
((1 + 4 u) r + 4 u |x|) times the square root of 1 + (2 d + 8) u. A box's bound is computed by the
same operations on smaller offsets, hence is never above the distance of a mean inside it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tulle.condense.stream._lanes import (
    box_distances,
    fetch,
    lowest,
    nearest,
    point_distances,
    within,
)
from tulle.condense.stream.groups import GroupArrays
from tulle.jit import inlined

ROOT, LEAVES, NODES = 0, 1, 2  # entries of `marks`
UNIT = 2.0**-24


class Tree(NamedTuple):
    """The arrays of the index; rows beyond the marks are spare."""

    marks: Any  # int64 (3,): root, leaves in use, nodes in use
    origin: Any  # float64 (d,), subtracted before rounding to float32
    home: Any  # int32 (groups,), leaf * LANES + lane
    points: Any  # float32 (leaves, d, LANES)
    ids: Any  # int32 (leaves, LANES)
    sizes: Any  # int32 (leaves, LANES), members of the group, -1 in an empty lane
    used: Any  # int32 (leaves,)
    touched: Any  # int32 (leaves,), updates since the boxes were tight
    leaf_parent: Any  # int32 (leaves, 2): node, slot
    low: Any  # float32 (nodes, d, LANES)
    high: Any  # float32 (nodes, d, LANES)
    children: Any  # int32 (nodes, LANES), leaves as ~leaf
    largest: Any  # int32 (nodes, LANES), members of the largest group below, -1 in an empty slot
    oldest: Any  # int32 (nodes, LANES), smallest group number below
    fill: Any  # int32 (nodes,)
    node_parent: Any  # int32 (nodes, 2)


class Scratch(NamedTuple):
    """Working memory of one search."""

    y: Any  # float32 (d,), the record about the origin
    distances: Any  # float32 (levels, LANES), from the record to the lanes of a node or leaf
    path: Any  # int32 (levels, 2): node, slot
    stack: Any  # int32 (depth, 2): child, oldest group below
    bounds: Any  # float32 (depth,)


class Best(NamedTuple):
    """The nearest group so far, and how far away in single precision a better one may seem."""

    group: Any  # int64, -1 at first
    distance: float
    limit: Any


@inlined
def search(
    tree: Tree, groups: GroupArrays, work: Scratch, record: Any, need: int, tie: float
) -> int:
    """The nearest group with at least ``need`` members, oldest first among coincident; or -1."""
    slack = _place(tree, work, record)
    leaf, levels = _descend(tree, work, need, _threshold(tie, slack, len(record)))
    if levels == 0:
        return -1
    best = Best(-1, np.inf, np.float32(np.inf))
    distances = work.distances[levels]
    point_distances(tree.points, leaf, work.y, distances)
    lanes = nearest(distances, np.float32(0.0), tree.sizes, leaf, need)
    best = _compare(tree, groups, record, leaf, lanes, best, slack, tie)
    lanes = within(distances, best.limit, tree.sizes, leaf, need)
    best = _compare(tree, groups, record, leaf, lanes, best, slack, tie)
    depth = 0
    for level in range(levels):
        node, slot = work.path[level, 0], work.path[level, 1]
        slots = within(work.distances[level], best.limit, tree.largest, node, need)
        depth = _push(tree, work, node, slots & ~(1 << slot), level, depth)
    while depth > 0:
        depth -= 1
        child = work.stack[depth, 0]
        if work.bounds[depth] > best.limit:
            continue
        if best.distance == 0.0 and work.stack[depth, 1] > best.group:
            continue  # only an older group could still win
        if child >= 0:
            box_distances(tree.low, tree.high, child, work.y, distances)
            slots = within(distances, best.limit, tree.largest, child, need)
            depth = _push(tree, work, child, slots, levels, depth)
            continue
        point_distances(tree.points, ~child, work.y, distances)
        lanes = within(distances, best.limit, tree.sizes, ~child, need)
        if lanes != 0:
            best = _compare(tree, groups, record, ~child, lanes, best, slack, tie)
    return best.group


@inlined
def _place(tree: Tree, work: Scratch, record: Any) -> float:
    """Rounds a record for the search; what rounding may add to a distance."""
    norm = 0.0
    shift = 0.0
    for k in range(len(record)):
        offset = record[k] - tree.origin[k]
        work.y[k] = np.float32(offset)
        norm += offset * offset
        shift += record[k] * record[k] + tree.origin[k] * tree.origin[k]
    return 4.0 * UNIT * math.sqrt(norm) + 1e-15 * math.sqrt(shift)


@inlined
def _threshold(distance: float, slack: float, dimensions: int) -> Any:
    """The largest float32 distance that a mean within ``distance`` (squared) can show."""
    reach = math.sqrt(distance) * (1.0 + 4.0 * UNIT) + slack
    return np.float32(reach * reach * (1.0 + (2.0 * dimensions + 12.0) * UNIT))


@inlined
def _descend(tree: Tree, work: Scratch, need: int, coincident: Any) -> tuple[int, int]:
    """A leaf to begin with: always the nearest box, the oldest of those that hold the record.

    Returns the leaf and its depth; way and distances stay in the working memory (with 36 columns,
    measuring these boxes twice took a quarter of the time). With a group near by, the search
    proper leaves out most of the tree. The depth is 0 if no group has enough members.
    """
    node = tree.marks[ROOT]
    level = 0
    while node >= 0:
        distances = work.distances[level]
        box_distances(tree.low, tree.high, node, work.y, distances)
        slots = nearest(distances, coincident, tree.largest, node, need)
        if slots == 0:
            return -1, 0
        first = lowest(slots)
        slots &= slots - 1
        while slots != 0:
            slot = lowest(slots)
            slots &= slots - 1
            if tree.oldest[node, slot] < tree.oldest[node, first]:
                first = slot
        work.path[level, 0] = node
        work.path[level, 1] = first
        level += 1
        node = np.int64(tree.children[node, first])
    return ~node, level


@inlined
def _push(tree: Tree, work: Scratch, node: int, slots: int, level: int, depth: int) -> int:
    """Puts children of a node on the stack; its new height."""
    while slots != 0:
        slot = lowest(slots)
        slots &= slots - 1
        work.bounds[depth] = work.distances[level, slot]
        work.stack[depth, 0] = tree.children[node, slot]
        work.stack[depth, 1] = tree.oldest[node, slot]
        depth += 1
    return depth


@inlined
def _compare(
    tree: Tree,
    groups: GroupArrays,
    record: Any,
    leaf: int,
    lanes: int,
    best: Best,
    slack: float,
    tie: float,
) -> Best:
    """The better of the best so far and some lanes of a leaf, in double precision."""
    while lanes != 0:
        group = np.int64(tree.ids[leaf, lowest(lanes)])
        lanes &= lanes - 1
        distance = 0.0
        for k in range(len(record)):
            offset = record[k] - groups.means[group, k]
            distance += offset * offset
        if distance <= tie:
            distance = 0.0
        if distance < best.distance or (distance == best.distance and group < best.group):
            limit = _threshold(max(distance, tie), slack, len(record))
            best = Best(group, distance, limit)
            _expect(tree, groups, group)
    return best


@inlined
def _expect(tree: Tree, groups: GroupArrays, group: Any) -> None:
    """Fetches what a record touches that joins this group: with many groups it is far away."""
    fetch(groups.scatters, group)
    fetch(groups.counts, group)
    fetch(groups.levels, group)
    fetch(groups.level_sums, group)
    fetch(tree.home, group)
