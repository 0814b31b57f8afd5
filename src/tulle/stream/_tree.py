"""The search in the index over moving means: a tree of boxes, scanned in single precision.

Leaves hold up to ``SEATS`` means as columns of float32, inner nodes up to ``LANES`` boxes of
their children (``_boxes.py`` keeps them up to date, ``_index.py`` builds and splits them). Single
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

from tulle._jit import inlined, int64
from tulle.stream._groups import GroupArrays

ROOT, LEAVES, NODES, PACKED = 0, 1, 2, 3  # entries of `marks`
LANES = 32  # boxes of a node, at most
SEATS = 64  # means of a leaf, at most
TOGETHER = 2  # dimensions that are measured together at least: a row of zeros makes it even
UNIT = 2.0**-24
UNKNOWN = -1.0
INFINITE: Any = np.float32(np.inf).view(np.int32)
MANY = 2**31 - 1  # people: more than any group has


class BoxTree(NamedTuple):
    """The arrays of the index; rows beyond the marks are spare.

    D is the number of dimensions d, rounded up to a multiple of ``TOGETHER``.
    """

    marks: Any  # int64 (4,): root, leaves in use, nodes in use, leaves when it was packed
    origin: Any  # float64 (d,), subtracted before rounding to float32
    home: Any  # int32 (groups,), leaf * SEATS + lane
    points: Any  # float32 (leaves, D, SEATS)
    ids: Any  # int32 (leaves, SEATS)
    sizes: Any  # int32 (leaves, SEATS), people in the group, -1 in an empty lane
    used: Any  # int32 (leaves,)
    touched: Any  # int32 (leaves,), updates since the boxes were tight
    leaf_parent: Any  # int32 (leaves, 2): node, slot
    low: Any  # float32 (nodes, D, LANES)
    high: Any  # float32 (nodes, D, LANES)
    children: Any  # int32 (nodes, LANES), leaves as ~leaf
    largest: Any  # int32 (nodes, LANES), people in the largest group below, -1 in an empty slot
    oldest: Any  # int32 (nodes, LANES), smallest group number below
    fill: Any  # int32 (nodes,)
    node_parent: Any  # int32 (nodes, 2)


class Scratch(NamedTuple):
    """Working memory of one search."""

    y: Any  # float32 (D,), the record about the origin
    distances: Any  # float32 (levels, LANES), from the record to the boxes of a node
    seats: Any  # float32 (SEATS,), from the record to the means of a leaf
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
    tree: BoxTree, groups: GroupArrays, work: Scratch, record: Any, need: int, tie: float
) -> int:
    """Find the nearest group of at least ``need`` people, the oldest of coincident ones, or -1."""
    rounding = _place(tree, work, record, tie)
    people: Any = np.int32(min(need, MANY))
    leaf, levels = _descend(tree, work, people, rounding.coincident)
    if levels == 0:
        return -1
    best = Best(-1, np.float32(np.inf), np.inf, np.float32(np.inf))
    best = _look(tree, groups, work, record, leaf, people, best, rounding)
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
            best = _look(tree, groups, work, record, ~child, people, best, rounding)
        else:
            _measure_boxes(tree, child, work.y, work.distances[levels])
            _least(work.distances[levels], tree.largest, child, people)
            depth = _push(tree, work, child, int64(-1), best.limit, levels, depth)
    return best.group


@inlined
def _place(tree: BoxTree, work: Scratch, record: Any, tie: float) -> Rounding:
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
def _descend(tree: BoxTree, work: Scratch, need: int, coincident: Any) -> tuple[int, int]:
    """Find a leaf to begin with: always the nearest box, the oldest of those that hold the record.

    Returns the leaf and its depth; way and distances stay in the working memory (with 36 columns,
    measuring these boxes twice took a quarter of the time). With a group near by, the search
    proper leaves out most of the tree. The depth is 0 if no group has enough people.
    """
    node = tree.marks[ROOT]
    level = 0
    while node >= 0:
        distances = work.distances[level]
        _measure_boxes(tree, node, work.y, distances)
        least = _least(distances, tree.largest, node, need)
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
    tree: BoxTree, work: Scratch, node: int, done: int, limit: Any, level: int, depth: int
) -> int:
    """Push the children of a node within the limit; the first goes last, to be looked at first.

    Coincident groups are packed by age; once an old one is found, younger ones are skipped.
    Returns the new height.
    """
    distances, children, oldest = work.distances[level], tree.children[node], tree.oldest[node]
    for slot in range(LANES - 1, -1, -1):  # all are written, without a branch; those near by stay
        distance = distances[slot]
        work.bounds[depth] = distance
        work.stack[depth, 0] = children[slot]
        work.stack[depth, 1] = oldest[slot]
        depth += int64((distance <= limit) & (distance < np.float32(np.inf)) & (slot != done))
    return depth


@inlined
def _look(
    tree: BoxTree,
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
    distances = work.seats
    _measure_means(tree.points, leaf, work.y, distances)
    if _lowest(distances) > best.limit:
        return best  # as of most leaves: their sizes, and which seats are empty, need not be known
    shown = _least(distances, tree.sizes, leaf, need)
    if shown == np.float32(np.inf) or shown > best.limit:
        return best
    limit = _threshold(max(_farthest(shown, slack, len(record)), tie), slack, len(record))
    rivals = 0
    for lane in range(SEATS):
        rivals += 1 if distances[lane] <= limit else 0
    if rivals == 1 and limit < best.shown and shown > coincident:
        first = _oldest(distances, shown, tree.ids, leaf)
        return Best(int64(tree.ids[leaf, first]), shown, UNKNOWN, limit)
    if best.distance == UNKNOWN:
        best = Best(best.group, best.shown, _exact(groups, record, best.group, tie), best.limit)
    for lane in range(SEATS):
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
def _measure_means(points: Any, row: int, record: Any, out: Any) -> None:
    """Write the squared distances to the means ``points[row, :, lane]`` into ``out``.

    Four dimensions at a time: what takes long is to store a sum and load it again.
    """
    for lane in range(SEATS):
        out[lane] = np.float32(0.0)
    whole = points.shape[1] - points.shape[1] % 4
    for k in range(0, whole, 4):
        a, b, c, d = record[k], record[k + 1], record[k + 2], record[k + 3]
        for lane in range(SEATS):
            first, second = points[row, k, lane] - a, points[row, k + 1, lane] - b
            third, fourth = points[row, k + 2, lane] - c, points[row, k + 3, lane] - d
            total = out[lane] + first * first + second * second
            out[lane] = total + third * third + fourth * fourth
    for k in range(whole, points.shape[1], 2):
        a, b = record[k], record[k + 1]
        for lane in range(SEATS):
            first, second = points[row, k, lane] - a, points[row, k + 1, lane] - b
            out[lane] = out[lane] + first * first + second * second


@inlined
def _measure_boxes(tree: BoxTree, node: int, record: Any, out: Any) -> None:
    """Write the squared distances to the boxes of a node's children into ``out``."""
    low, high = tree.low, tree.high
    for lane in range(LANES):
        out[lane] = np.float32(0.0)
    for k in range(0, low.shape[1], 2):
        a, b = record[k], record[k + 1]
        for lane in range(LANES):
            first = _gap(low[node, k, lane], high[node, k, lane], a)
            second = _gap(low[node, k + 1, lane], high[node, k + 1, lane], b)
            out[lane] = out[lane] + first * first + second * second


@inlined
def _gap(low: Any, high: Any, at: Any) -> Any:
    """Return how far a value is outside of an interval."""
    return max(max(low - at, at - high), np.float32(0.0))


@inlined
def _least(distances: Any, sizes: Any, row: int, need: Any) -> Any:
    """Return the least distance; lanes that are not large enough are put infinitely far away.

    Distances that are not negative are in the order of their bits, and a minimum over whole numbers
    becomes vector instructions, if the compiler does not know how few there are.
    """
    bits = distances.view(np.int32)
    own = sizes[row]
    least = INFINITE
    for lane in range(len(bits)):
        found = bits[lane] if own[lane] >= need else INFINITE
        bits[lane] = found
        least = min(least, found)
    smallest = np.int32(least)
    return smallest.view(np.float32)


@inlined
def _lowest(distances: Any) -> Any:
    """Return the least of all distances, by their bits as :func:`_least` does."""
    bits = distances.view(np.int32)
    least = INFINITE
    for lane in range(len(bits)):
        least = min(least, bits[lane])
    smallest = np.int32(least)
    return smallest.view(np.float32)


@inlined
def _oldest(distances: Any, limit: Any, ages: Any, row: int) -> int:
    """Return the oldest of the lanes within a distance; there is one at least."""
    own = ages[row]
    first = int64(2**62)
    for lane in range(len(own)):  # age and lane in one number: its minimum needs no branch
        rank = int64(own[lane]) * len(own) + lane
        rank = rank if distances[lane] <= limit else int64(2**62)
        first = min(first, rank)
    return first % len(own)
