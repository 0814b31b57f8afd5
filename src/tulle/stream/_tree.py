"""The search in the index over moving means: a tree of boxes, scanned in single precision.

Leaves hold up to ``LANES`` means as columns of float32, inner nodes as many boxes of their
children (``_boxes.py`` keeps them up to date, ``_index.py`` builds and splits them). Single
precision decides only what it can decide for certain: means that may be equally near are
compared again in double precision, so the answer is that of a linear search.

Why that is certain: with u = 2**-24, rounding record and mean to float32 moves each offset by at
most u (2 |x_k| + 2 |t_k|), and adding d squares changes their sum by a factor of 1 +- (d + 3) u
at most. So a mean at the distance r shows a distance s in single precision with

    s <= ((1 + 4 u) r + 4 u |x|) times the square root of 1 + (2 d + 8) u   (``_threshold``),
    r <= (1 + (d + 8) u) (1 + 4 u) s + (1 + 4 u) 4 u |x|                    (``_farthest``),

where x and t are taken about the origin of the index. The code allows a little more (12 where 8
stands here), for the rounding of the bounds themselves. A box's bound is computed by the same
operations on smaller offsets, hence is never above the distance that a mean inside it shows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tulle._jit import inlined, int64, ordered
from tulle.stream._groups import GroupArrays

ROOT, LEAVES, NODES, PACKED = 0, 1, 2, 3  # entries of `marks`
LANES = 32  # means of a leaf, boxes of a node, at most
UNIT = 2.0**-24
UNKNOWN = -1.0


class Tree(NamedTuple):
    """The arrays of the index; rows beyond the marks are spare."""

    marks: Any  # int64 (4,): root, leaves in use, nodes in use, leaves when it was packed
    origin: Any  # float64 (d,), subtracted before rounding to float32
    home: Any  # int32 (groups,), leaf * LANES + lane
    points: Any  # float32 (leaves, d, LANES)
    ids: Any  # int32 (leaves, LANES)
    sizes: Any  # int32 (leaves, LANES), people in the group, -1 in an empty lane
    used: Any  # int32 (leaves,)
    touched: Any  # int32 (leaves,), updates since the boxes were tight
    leaf_parent: Any  # int32 (leaves, 2): node, slot
    low: Any  # float32 (nodes, d, LANES)
    high: Any  # float32 (nodes, d, LANES)
    children: Any  # int32 (nodes, LANES), leaves as ~leaf
    largest: Any  # int32 (nodes, LANES), people in the largest group below, -1 in an empty slot
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
    matrices: Any  # float64 (3, d, d), for the axis of a split
    axis: Any  # float64 (d,)


class Rounding(NamedTuple):
    """What single precision cannot tell about a record."""

    slack: float  # what rounding may add to a distance
    tie: float  # squared distance within which groups count as coincident with the record
    coincident: Any  # float32, the largest that such a group can show


class Best(NamedTuple):
    """The nearest group so far."""

    group: Any  # int64, -1 at first
    shown: Any  # float32, its squared distance in single precision
    distance: float  # in double precision; UNKNOWN as long as nobody needs it
    limit: Any  # float32, the largest that a group as near can show


@inlined
def search(
    tree: Tree, groups: GroupArrays, work: Scratch, record: Any, need: int, tie: float
) -> int:
    """Find the nearest group of at least ``need`` people, the oldest of coincident ones, or -1."""
    rounding = _place(tree, work, record, tie)
    leaf, levels = _descend(tree, work, need, rounding.coincident)
    if levels == 0:
        return -1
    best = Best(-1, np.float32(np.inf), np.inf, np.float32(np.inf))
    best = _look(tree, groups, work, record, leaf, need, best, rounding)
    depth = int64(0)
    for level in range(levels):
        node, slot = int64(work.path[level, 0]), int64(work.path[level, 1])
        depth = _push(tree, work, node, slot, best.limit, level, depth)
    while depth > 0:
        depth -= 1
        child = int64(work.stack[depth, 0])
        if work.bounds[depth] > best.limit:
            continue
        if best.distance == 0.0 and work.stack[depth, 1] > best.group:
            continue  # only an older group could still win
        if child < 0:
            best = _look(tree, groups, work, record, ~child, need, best, rounding)
        else:
            _measure(tree.low, tree.high, child, work.y, work.distances[levels])
            _bar(work.distances[levels], tree.largest, child, need)
            depth = _push(tree, work, child, int64(-1), best.limit, levels, depth)
    return best.group


@inlined
def _place(tree: Tree, work: Scratch, record: Any, tie: float) -> Rounding:
    """Round a record for the search."""
    norm = 0.0
    shift = 0.0
    for k in range(len(record)):
        offset = record[k] - tree.origin[k]
        work.y[k] = np.float32(offset)
        norm += offset * offset
        shift += record[k] * record[k] + tree.origin[k] * tree.origin[k]
    slack = 4.0 * UNIT * math.sqrt(norm) + 1e-15 * math.sqrt(shift)
    return Rounding(slack, tie, _threshold(tie, slack, len(record)))


@inlined
def _threshold(distance: float, slack: float, dimensions: int) -> Any:
    """Return the largest float32 distance that a mean within ``distance`` (squared) can show."""
    reach = math.sqrt(distance) * (1.0 + 4.0 * UNIT) + slack
    return np.float32(reach * reach * (1.0 + (2.0 * dimensions + 12.0) * UNIT))


@inlined
def _farthest(shown: Any, slack: float, dimensions: int) -> float:
    """Return the largest squared distance of a mean that shows this one in single precision."""
    reach = math.sqrt(np.float64(shown)) * (1.0 + (dimensions + 12.0) * UNIT)
    reach += slack * (1.0 + 12.0 * UNIT)
    return reach * reach


@inlined
def _descend(tree: Tree, work: Scratch, need: int, coincident: Any) -> tuple[int, int]:
    """Find a leaf to begin with: always the nearest box, the oldest of those that hold the record.

    Returns the leaf and its depth; way and distances stay in the working memory (with 36 columns,
    measuring these boxes twice took a quarter of the time). With a group near by, the search
    proper leaves out most of the tree. The depth is 0 if no group has enough people.
    """
    node = tree.marks[ROOT]
    level = 0
    while node >= 0:
        distances = work.distances[level]
        _measure(tree.low, tree.high, node, work.y, distances)
        _bar(distances, tree.largest, node, need)
        least = _least(distances)
        if least == np.float32(np.inf):
            return -1, 0
        first = _oldest(distances, max(least, coincident), tree.oldest, node)
        work.path[level, 0] = node
        work.path[level, 1] = first
        level += 1
        node = int64(tree.children[node, first])
    return ~node, level


@inlined
def _push(
    tree: Tree, work: Scratch, node: int, done: int, limit: Any, level: int, depth: int
) -> int:
    """Push the children of a node within the limit; the first goes last, to be looked at first.

    Coincident groups are packed by age; once an old one is found, younger ones are skipped.
    Returns the new height.
    """
    for slot in range(LANES - 1, -1, -1):
        near = work.distances[level, slot] <= limit
        if near and work.distances[level, slot] < np.inf and slot != done:
            work.bounds[depth] = work.distances[level, slot]
            work.stack[depth, 0] = tree.children[node, slot]
            work.stack[depth, 1] = tree.oldest[node, slot]
            depth += 1
    return depth


@inlined
def _look(
    tree: Tree,
    groups: GroupArrays,
    work: Scratch,
    record: Any,
    leaf: int,
    need: int,
    best: Best,
    rounding: Rounding,
) -> Best:
    """Return the better of the best so far and the groups of a leaf."""
    slack, tie, coincident = rounding
    distances = work.distances[-1]
    _measure(tree.points, tree.points, leaf, work.y, distances)
    _bar(distances, tree.sizes, leaf, need)
    shown = _least(distances)
    if shown == np.float32(np.inf) or shown > best.limit:
        return best
    limit = _threshold(max(_farthest(shown, slack, len(record)), tie), slack, len(record))
    rivals = 0
    for lane in range(LANES):
        rivals += 1 if distances[lane] <= limit else 0
    if rivals == 1 and limit < best.shown and shown > coincident:
        first = _oldest(distances, shown, tree.ids, leaf)
        return Best(int64(tree.ids[leaf, first]), shown, UNKNOWN, limit)
    if best.distance == UNKNOWN:
        best = Best(best.group, best.shown, _exact(groups, record, best.group, tie), best.limit)
    for lane in range(LANES):
        if distances[lane] > limit:
            continue
        group = int64(tree.ids[leaf, lane])
        distance = _exact(groups, record, group, tie)
        if distance < best.distance or (distance == best.distance and group < best.group):
            bound = _threshold(max(distance, tie), slack, len(record))
            best = Best(group, distances[lane], distance, bound)
    return best


@inlined
def _exact(groups: GroupArrays, record: Any, group: Any, tie: float) -> float:
    """Compute the squared distance in double precision; 0 for a coincident group."""
    distance = 0.0
    for k in range(len(record)):
        offset = record[k] - groups.means[group, k]
        distance += offset * offset
    return 0.0 if distance <= tie else distance


# One record against the lanes of a leaf or of a node: short loops that the compiler turns into
# vector instructions.


@inlined
def _measure(low: Any, high: Any, row: int, record: Any, out: Any) -> None:
    """Write the squared distances to the boxes ``low[row, :, lane]`` to ``high`` into ``out``.

    A mean is a box whose ends are equal, so that both are measured by the same operations.
    """
    zero = np.float32(0.0)
    for lane in range(LANES):
        out[lane] = zero
    for k in range(len(record)):
        at = record[k]
        for lane in range(LANES):
            gap = max(max(low[row, k, lane] - at, at - high[row, k, lane]), zero)
            out[lane] += gap * gap


@inlined
def _bar(distances: Any, sizes: Any, row: int, need: int) -> None:
    """Put the lanes that are not large enough infinitely far away."""
    infinite = np.float32(np.inf)
    for lane in range(LANES):
        distances[lane] = distances[lane] if sizes[row, lane] >= need else infinite


@ordered
def _least(distances: Any) -> Any:
    """Return the least distance."""
    least = distances[0]
    for lane in range(1, LANES):
        least = distances[lane] if distances[lane] < least else least
    return least


@ordered
def _oldest(distances: Any, limit: Any, ages: Any, row: int) -> int:
    """Return the oldest of the lanes within a distance; there is one at least."""
    first = int64(2**62)
    for lane in range(LANES):  # age and lane in one number: its minimum is found without a branch
        rank = int64(ages[row, lane]) * LANES + lane
        rank = rank if distances[lane] <= limit else int64(2**62)
        first = rank if rank < first else first
    return first % LANES
