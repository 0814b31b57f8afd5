"""The search in the index over moving means: a tree of boxes, scanned in single precision.

Leaves hold up to ``LANES`` means as columns of float32, inner nodes up to ``FAN`` boxes of their
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

from tulle.condense.stream.groups import GroupArrays
from tulle.jit import inlined

LANES = 128
FAN = 16
FAR = np.float32(1e18)  # the place of empty lanes
ZERO = np.float32(0.0)
ROOT, LEAVES, NODES = 0, 1, 2  # entries of `marks`
UNIT = 2.0**-24


class Tree(NamedTuple):
    """The arrays of the index; rows beyond the marks are spare."""

    marks: Any  # int64 (3,): root, leaves in use, nodes in use
    origin: Any  # float64 (d,), subtracted before rounding to float32
    home: Any  # int32 (groups,), leaf * LANES + lane
    points: Any  # float32 (leaves, even d, LANES)
    ids: Any  # int32 (leaves, LANES)
    sizes: Any  # int32 (leaves, LANES), members of the group, -1 in an empty lane
    used: Any  # int32 (leaves,)
    touched: Any  # int32 (leaves,), updates since the boxes were tight
    leaf_parent: Any  # int32 (leaves, 2): node, slot
    low: Any  # float32 (nodes, even d, FAN)
    high: Any  # float32 (nodes, even d, FAN)
    children: Any  # int32 (nodes, FAN), leaves as ~leaf
    largest: Any  # int32 (nodes, FAN), members of the largest group below, -1 in an empty slot
    oldest: Any  # int32 (nodes, FAN), smallest group number below
    fill: Any  # int32 (nodes,)
    node_parent: Any  # int32 (nodes, 2)


class Scratch(NamedTuple):
    """Working memory of one search."""

    y: Any  # float32 (even d,), the record about the origin
    lanes: Any  # float32 (LANES,)
    slots: Any  # float32 (FAN,)
    stack: Any  # int32 (depth, 2): child, oldest group below
    bounds: Any  # float32 (depth,)


@inlined
def _threshold(distance: float, slack: float, dimensions: int) -> Any:
    """The largest float32 distance that a mean within ``distance`` (squared) can show."""
    reach = math.sqrt(distance) * (1.0 + 4.0 * UNIT) + slack
    return np.float32(reach * reach * (1.0 + (2.0 * dimensions + 12.0) * UNIT))


@inlined
def search(
    tree: Tree, groups: GroupArrays, work: Scratch, record: Any, need: int, tie: float
) -> int:
    """The nearest group with at least ``need`` members, oldest first among coincident; or -1."""
    dimensions = len(record)
    norm = 0.0
    shift = 0.0
    for k in range(dimensions):
        offset = record[k] - tree.origin[k]
        work.y[k] = np.float32(offset)
        norm += offset * offset
        shift += record[k] * record[k] + tree.origin[k] * tree.origin[k]
    slack = 4.0 * UNIT * math.sqrt(norm) + 1e-15 * math.sqrt(shift)
    coincident = _threshold(tie, slack, dimensions)
    threshold = np.float32(np.inf)
    best = -1
    best_distance = np.inf
    work.stack[0, 0] = tree.marks[ROOT]
    work.stack[0, 1] = 0
    work.bounds[0] = ZERO
    depth = 1
    while depth > 0:
        depth -= 1
        child = work.stack[depth, 0]
        if work.bounds[depth] > threshold:
            continue
        if best_distance == 0.0 and work.stack[depth, 1] > best:
            continue  # only an older group could still win
        if child >= 0:
            depth = _expand(tree, work, child, need, threshold, coincident, depth)
            continue
        leaf = ~child
        if not _scan(tree, work, leaf, need, threshold):
            continue
        first = _closest_lane(tree, work, leaf, need) if best < 0 else 0
        for step in range(LANES):
            lane = (first + step) % LANES
            if not (work.lanes[lane] <= threshold and tree.sizes[leaf, lane] >= need):
                continue
            group = tree.ids[leaf, lane]
            distance = 0.0
            for k in range(dimensions):
                offset = record[k] - groups.means[group, k]
                distance += offset * offset
            if distance <= tie:
                distance = 0.0
            if distance < best_distance or (distance == best_distance and group < best):
                best = group
                best_distance = distance
                threshold = _threshold(max(distance, tie), slack, dimensions)
    return best


@inlined
def _expand(
    tree: Tree, work: Scratch, node: int, need: int, threshold: Any, coincident: Any, depth: int
) -> int:
    """Pushes the children that may hold the nearest group, the most promising last."""
    slots, y = work.slots, work.y
    for slot in range(FAN):
        slots[slot] = ZERO
    for k in range(0, len(y), 2):
        u = y[k]
        v = y[k + 1]
        for slot in range(FAN):
            s = max(max(tree.low[node, k, slot] - u, u - tree.high[node, k, slot]), ZERO)
            t = max(max(tree.low[node, k + 1, slot] - v, v - tree.high[node, k + 1, slot]), ZERO)
            slots[slot] += s * s + t * t
    base = depth
    for slot in range(tree.fill[node]):
        bound = slots[slot]
        if bound > threshold or tree.largest[node, slot] < need:
            continue
        oldest = tree.oldest[node, slot]
        if bound <= coincident:
            bound = ZERO
        place = depth
        while place > base and (
            work.bounds[place - 1] < bound
            or (work.bounds[place - 1] == bound and work.stack[place - 1, 1] < oldest)
        ):
            work.bounds[place] = work.bounds[place - 1]
            work.stack[place, 0] = work.stack[place - 1, 0]
            work.stack[place, 1] = work.stack[place - 1, 1]
            place -= 1
        work.bounds[place] = bound
        work.stack[place, 0] = tree.children[node, slot]
        work.stack[place, 1] = oldest
        depth += 1
    return depth


@inlined
def _scan(tree: Tree, work: Scratch, leaf: int, need: int, threshold: Any) -> bool:
    """Single-precision distances to all means of a leaf; whether one is worth a closer look."""
    lanes, y = work.lanes, work.y
    points = tree.points[leaf]
    sizes = tree.sizes[leaf]
    for lane in range(LANES):
        lanes[lane] = ZERO
    for k in range(0, len(y), 2):
        u = y[k]
        v = y[k + 1]
        for lane in range(LANES):
            s = points[k, lane] - u
            t = points[k + 1, lane] - v
            lanes[lane] += s * s + t * t
    hits = 0
    for lane in range(LANES):
        hits += (lanes[lane] <= threshold) & (sizes[lane] >= need)
    return hits > 0


@inlined
def _closest_lane(tree: Tree, work: Scratch, leaf: int, need: int) -> int:
    """Where to begin in the first leaf, so that the threshold falls at once."""
    closest = 0
    least = np.float32(np.inf)
    for lane in range(LANES):
        if work.lanes[lane] < least and tree.sizes[leaf, lane] >= need:
            least = work.lanes[lane]
            closest = lane
    return closest
