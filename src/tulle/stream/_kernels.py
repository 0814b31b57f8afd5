"""The stream in compiled code: find the group, add the record, split the group, with an index.

The index is a tree of boxes over moving means, scanned in single precision. Leaves hold up to
``SEATS`` means as columns of float32, inner nodes up to ``LANES`` boxes of their children
(``_index.py`` builds and splits them). Single precision decides only what it can decide for
certain: means that may be equally near are compared again in double precision, so the answer is
that of a linear search.

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

from tulle._jit import inlined, int64, kernel, part
from tulle.stream._groups import CONVERGED, SQUARINGS, GroupArrays

ROOT, LEAVES, NODES, PACKED = 0, 1, 2, 3  # entries of `marks`
LANES = 32  # boxes of a node, at most
SEATS = 64  # means of a leaf, at most
TOGETHER = 2  # dimensions that are measured together at least: a row of zeros makes it even
UNIT = 2.0**-24
UNKNOWN = -1.0
INFINITE: Any = np.float32(np.inf).view(np.int32)
MANY = 2**31 - 1  # people: more than any group has
RETIGHTEN = 32  # updates of a leaf, after which its boxes are fitted again
DONE, FULL, WAIT, WAKE, CROWDED = 0, 1, 2, 3, 4  # why `absorb` came back


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


# The upkeep of the index while means move: lanes, boxes, and their parents.


@inlined
def move(tree: BoxTree, groups: GroupArrays, group: int) -> None:
    leaf, lane = divmod(tree.home[group], SEATS)
    _write(tree, groups, group, leaf, lane)
    tree.touched[leaf] += 1
    if tree.touched[leaf] >= RETIGHTEN:
        _tighten(tree, leaf)
    else:
        _widen(tree, leaf, lane)


@inlined
def _write(tree: BoxTree, groups: GroupArrays, group: int, leaf: int, lane: int) -> None:
    tree.sizes[leaf, lane] = groups.people[group]
    for k in range(groups.means.shape[1]):
        tree.points[leaf, k, lane] = np.float32(groups.means[group, k] - tree.origin[k])


@inlined
def insert(tree: BoxTree, groups: GroupArrays, group: int, sibling: int) -> int:
    """Give a new group a lane in its sibling's leaf; return the leaf if it is now full, else -1.

    Both are still to be moved. But the lane is filled at once: the boxes may be tightened before.
    """
    leaf = tree.home[sibling] // SEATS
    lane = int64(tree.used[leaf])
    tree.used[leaf] += 1
    _write(tree, groups, group, leaf, lane)
    tree.ids[leaf, lane] = group
    tree.home[group] = leaf * SEATS + lane
    return leaf if tree.used[leaf] == SEATS else -1


@kernel
def halve(tree: BoxTree, leaf: int, order: Any) -> None:
    """Move the second half of a full leaf's lanes, in this order, into a new leaf.

    Their parent has a free slot.
    """
    new = tree.marks[LEAVES]
    tree.marks[LEAVES] += 1
    for rank in range(SEATS // 2, SEATS):
        _carry(tree, leaf, order[rank], new, rank - SEATS // 2)
    # those that stay close the gaps: a lane in the lower half is free as soon as it was carried
    free = 0
    for rank in range(SEATS // 2):
        if order[rank] >= SEATS // 2:
            while tree.sizes[leaf, free] >= 0:
                free += 1
            _carry(tree, leaf, order[rank], leaf, free)
    node = tree.leaf_parent[leaf, 0]
    slot = tree.fill[node]
    tree.fill[node] += 1
    tree.children[node, slot] = ~new
    tree.leaf_parent[new, 0] = node
    tree.leaf_parent[new, 1] = slot
    for half in (leaf, new):
        tree.used[half] = SEATS // 2
        _tighten(tree, half)


@inlined
def _carry(tree: BoxTree, leaf: int, lane: int, target: int, place: int) -> None:
    for k in range(len(tree.origin)):
        tree.points[target, k, place] = tree.points[leaf, k, lane]
    tree.ids[target, place] = tree.ids[leaf, lane]
    tree.sizes[target, place] = tree.sizes[leaf, lane]
    tree.sizes[leaf, lane] = -1
    tree.home[tree.ids[target, place]] = target * SEATS + place


@inlined
def _widen(tree: BoxTree, leaf: int, lane: int) -> None:
    """Widen the boxes above a lane to hold it, going up until nothing changes."""
    node, slot = tree.leaf_parent[leaf, 0], tree.leaf_parent[leaf, 1]
    changed = True
    while changed and node >= 0:
        changed = False
        for k in range(len(tree.origin)):
            value = tree.points[leaf, k, lane]
            if value < tree.low[node, k, slot]:
                tree.low[node, k, slot] = value
                changed = True
            if value > tree.high[node, k, slot]:
                tree.high[node, k, slot] = value
                changed = True
        if tree.sizes[leaf, lane] > tree.largest[node, slot]:
            tree.largest[node, slot] = tree.sizes[leaf, lane]
            changed = True
        node, slot = tree.node_parent[node, 0], tree.node_parent[node, 1]


@part
def _tighten(tree: BoxTree, leaf: int) -> None:
    """Shrink the boxes above a leaf to what they hold."""
    tree.touched[leaf] = 0
    node, slot = int64(tree.leaf_parent[leaf, 0]), tree.leaf_parent[leaf, 1]
    inside = tree.points, tree.points, tree.sizes, tree.ids
    _enclose(tree, node, slot, inside, leaf, tree.used[leaf])
    while tree.node_parent[node, 0] >= 0:
        above, slot = int64(tree.node_parent[node, 0]), tree.node_parent[node, 1]
        boxes = tree.low, tree.high, tree.largest, tree.oldest
        _enclose(tree, above, slot, boxes, node, tree.fill[node])
        node = above


@inlined
def _enclose(tree: BoxTree, node: int, slot: int, inside: Any, row: int, used: int) -> None:
    """Fit one box to the first ``used`` columns of a leaf or of a node."""
    lows, highs, sizes, ages = inside
    for k in range(len(tree.origin)):
        low = lows[row, k, 0]
        high = highs[row, k, 0]
        for column in range(1, used):
            low = min(low, lows[row, k, column])
            high = max(high, highs[row, k, column])
        tree.low[node, k, slot] = low
        tree.high[node, k, slot] = high
    largest = sizes[row, 0]
    oldest = ages[row, 0]
    for column in range(1, used):
        largest = max(largest, sizes[row, column])
        oldest = min(oldest, ages[row, column])
    tree.largest[node, slot] = largest
    tree.oldest[node, slot] = oldest


# The steps themselves.


@kernel
def absorb(
    groups: GroupArrays,
    tree: BoxTree,
    work: Scratch,
    records: Any,
    levels: Any,
    start: int,
    size: int,
    unsettled: int,
    wake: int,
    each: int,
    strict: bool,
    tie: float,
) -> tuple[int, int, int, int]:
    """Settle a group (unless it is -1), then condense records until the caller has to act.

    Returns the next record, the number of groups, the reason and whom it concerns:
    FULL = the index has no room for one more group; WAIT = no group may take the next record;
    WAKE = this group has reached ``wake`` people, which a waiting record needs, and is not
    settled yet; CROWDED = this leaf of the index is full and must be split.
    """

    row = start
    group = unsettled
    while True:
        if group >= 0:
            parts, changed = (group, size), 1
            crowded = -1
            if _due(groups, group, strict):
                _split(groups, work, group, size)
                crowded = insert(tree, groups, size, group)
                size += 1
                changed = 2
            for part in range(changed):
                move(tree, groups, parts[part])
            if crowded >= 0:
                return row, size, CROWDED, crowded
        if row == len(records):
            return row, size, DONE, -1
        if size == len(tree.home):
            return row, size, FULL, -1
        group = search(tree, groups, work, records[row], levels[row] - each, tie)
        if group < 0:
            return row, size, WAIT, -1
        add(groups, group, records[row], levels[row], each)
        row += 1
        if groups.people[group] >= wake:
            return row, size, WAKE, group


@inlined
def add(groups: GroupArrays, group: int, record: Any, level: int, each: int) -> None:
    """Update a group's statistics with one record (Welford), which is ``each`` people."""
    dimensions = len(record)
    groups.counts[group] += 1
    groups.people[group] += each
    count = float(groups.counts[group])
    weight = (count - 1.0) / count
    mean = groups.means[group]
    scatter = groups.scatters[group]
    entry = 0
    for i in range(dimensions):
        offset = record[i] - mean[i]
        for j in range(i, dimensions):
            scatter[entry] += offset * (record[j] - mean[j]) * weight
            entry += 1
    for i in range(dimensions):
        mean[i] += (record[i] - mean[i]) / count
    groups.levels[group] = max(groups.levels[group], level)
    groups.level_sums[group] += level


@kernel
def join(groups: GroupArrays, group: int, record: Any, level: int, each: int) -> None:
    """Add a record to a group outside of a batch: one that has waited."""
    add(groups, group, record, level, each)


@inlined
def _due(groups: GroupArrays, group: int, strict: bool) -> bool:
    """Tell whether a group is due: n >= 2 Ps / n; strict: and halves hold its largest level.

    Where people have several records, n on the left is the number of people.
    """
    people = groups.people[group]
    due = people * groups.counts[group] >= 2 * groups.level_sums[group]
    return due and (not strict or people // 2 >= groups.levels[group])


@part
def _split(groups: GroupArrays, work: Scratch, group: int, new: int) -> None:
    """Halve a group along its longest axis, as if it were uniform there.

    With fractions f and 1 - f, the parts are uniform on neighbouring intervals of length f a and
    (1 - f) a, a = sqrt(12 lambda_1). Total n, Fs, Sc and Ps stay what they were; both parts keep
    the largest level. The paper's case is f = 1/2.
    """
    dimensions = groups.means.shape[1]
    count = groups.counts[group]
    larger = (count + 1) // 2
    fraction = larger / count
    covariance, axis = work.matrices[0], work.axis
    entry = 0
    for i in range(dimensions):
        for j in range(i, dimensions):
            covariance[i, j] = groups.scatters[group, entry] / float(count)
            covariance[j, i] = covariance[i, j]
            entry += 1
    variance = _longest_axis(work)
    width = math.sqrt(12.0 * variance)
    rest = 1.0 - fraction
    for i in range(dimensions):
        groups.means[new, i] = groups.means[group, i] + axis[i] * (fraction * 0.5 * width)
        groups.means[group, i] -= axis[i] * (rest * 0.5 * width)
    entry = 0
    for i in range(dimensions):
        for j in range(i, dimensions):
            outer = axis[i] * axis[j] * variance
            both = covariance[i, j]
            groups.scatters[new, entry] = (both - outer * (1.0 - rest * rest)) * float(
                count - larger
            )
            groups.scatters[group, entry] = (both - outer * (1.0 - fraction * fraction)) * float(
                larger
            )
            entry += 1
    groups.counts[new] = count - larger
    groups.counts[group] = larger
    groups.people[new] = groups.people[group] // 2
    groups.people[group] -= groups.people[new]
    groups.levels[new] = groups.levels[group]
    total = groups.level_sums[group]
    share = (2 * total * larger + count) // (2 * count)
    groups.level_sums[group] = share
    groups.level_sums[new] = total - share
    groups.families[new] = groups.families[group]


@part
def _longest_axis(work: Scratch) -> float:
    """Find the first eigenvector of a matrix, with a fixed sign; return its eigenvalue.

    A matrix that is squared again and again becomes the outer product of its first eigenvector
    with itself. Only that vector is wanted, so this is quicker than all eigenvectors; and it
    does not depend on whose linear algebra is installed.
    """
    covariance, power, square = work.matrices[0], work.matrices[1], work.matrices[2]
    axis = work.axis
    dimensions = len(axis)
    for i in range(dimensions):
        axis[i] = 1.0 if i == 0 else 0.0
    trace = 0.0
    for i in range(dimensions):
        trace += covariance[i, i]
    if not trace > 0.0:
        return 0.0
    _divide(covariance, trace, power)
    for _ in range(SQUARINGS):
        _square(power, square)
        trace = 0.0
        for i in range(dimensions):
            trace += square[i, i]
        _divide(square, trace, power)
        if trace > CONVERGED:
            break
    first = 0
    for i in range(1, dimensions):
        if power[i, i] > power[first, first]:
            first = i
    norm = 0.0
    for i in range(dimensions):
        norm += power[first, i] * power[first, i]
    norm = math.sqrt(norm)
    for i in range(dimensions):
        axis[i] = power[first, i] / norm
    variance = 0.0
    for i in range(dimensions):
        along = 0.0
        for j in range(dimensions):
            along += covariance[i, j] * axis[j]
        variance += along * axis[i]
    return max(variance, 0.0)


@inlined
def _square(matrix: Any, out: Any) -> None:
    """Multiply a symmetric matrix by itself; entries are added in order, four at a time."""
    dimensions = len(matrix)
    whole = dimensions - dimensions % 4
    for i in range(dimensions):
        for j in range(dimensions):
            out[i, j] = 0.0
        for k in range(0, whole, 4):
            a, b, c, d = matrix[k, i], matrix[k + 1, i], matrix[k + 2, i], matrix[k + 3, i]
            for j in range(dimensions):
                total = out[i, j] + a * matrix[k, j] + b * matrix[k + 1, j]
                out[i, j] = total + c * matrix[k + 2, j] + d * matrix[k + 3, j]
        for k in range(whole, dimensions):
            for j in range(dimensions):
                out[i, j] += matrix[k, i] * matrix[k, j]


@inlined
def _divide(matrix: Any, divisor: float, out: Any) -> None:
    for i in range(len(matrix)):
        for j in range(len(matrix)):
            out[i, j] = matrix[i, j] / divisor
