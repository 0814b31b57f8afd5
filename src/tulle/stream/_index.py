"""The owner of the index: builds it from the groups' means and splits what is full.

These are rare events, so they are plain NumPy. All leaves have the same depth, however the stream
drifts, because a full node hands one half upward.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tulle.stream._groups import StreamGroups
from tulle.stream._kernels import (
    LANES,
    LEAVES,
    NODES,
    PACKED,
    ROOT,
    SEATS,
    TOGETHER,
    BoxTree,
    Scratch,
    halve,
)

LEAF_FILL = 48  # of 64 lanes at most: a new leaf has room to grow
NODE_FILL = 28  # of 32 leaves at most, likewise
WORN = 9 / 8  # times the leaves of a packed tree; then repacking pays
DEEPEST = 32  # more levels than memory could hold
Numbers = NDArray[np.int64]
Singles = NDArray[np.float32]


def build(groups: StreamGroups) -> BoxTree:
    """Build a packed tree over all groups, with as much room as their arrays have.

    When these are full, or many leaves were split, it is time to repack the groups: a new one
    goes where that one is from which it came, and by and by boxes overlap.
    """
    used = groups.view()
    origin = used.means.mean(axis=0)
    points = np.zeros((groups.size, _padded(len(origin))), dtype=np.float32)
    points[:, : len(origin)] = used.means - origin
    leaves = math.ceil(groups.size / LEAF_FILL)
    nodes = 2 ** max(0, math.ceil(math.log2(leaves / NODE_FILL)))
    fill = math.ceil(leaves / nodes)
    order, edges = _halved(points, nodes * fill)
    points, people, starts = points[order], used.people[order], edges[:-1]
    tree = _empty(origin, groups.capacity)
    _fill_leaves(tree, points, order, people, edges)
    _stack_nodes(
        tree,
        np.minimum.reduceat(points, starts),
        np.maximum.reduceat(points, starts),
        np.maximum.reduceat(people, starts),
        np.minimum.reduceat(order, starts),
        fill,
    )
    return tree


def scratch(dimensions: int) -> Scratch:
    """Allocate working memory for searches.

    A node has eight children at least, so no tree has more than a dozen levels; each leaves no
    more than ``LANES`` children on the stack.
    """
    return Scratch(
        np.zeros(_padded(dimensions), dtype=np.float32),
        np.zeros((DEEPEST + 1, LANES), dtype=np.float32),
        np.zeros(SEATS, dtype=np.float32),
        np.zeros((DEEPEST, 2), dtype=np.int32),
        np.zeros((DEEPEST * LANES + 1, 2), dtype=np.int32),
        np.zeros(DEEPEST * LANES + 1, dtype=np.float32),
        np.zeros((3, dimensions, dimensions)),
        np.zeros(dimensions),
    )


def split_leaf(tree: BoxTree, leaf: int) -> bool:
    """Move half of a full leaf into a new one; return False if the tree must be repacked."""
    worn = tree.marks[LEAVES] > WORN * tree.marks[PACKED] + LANES
    if worn or tree.marks[LEAVES] == len(tree.used) or tree.marks[NODES] + DEEPEST > len(tree.fill):
        return False
    _make_room(tree, int(tree.leaf_parent[leaf, 0]))
    widest = tree.points[leaf].var(axis=1, dtype=np.float64).argmax()
    halve(tree, leaf, np.lexsort((tree.ids[leaf], tree.points[leaf, widest])))
    return True


def _halved(points: Singles, leaves: int) -> tuple[Numbers, Numbers]:
    """Cut points in halves repeatedly; give their order, and the edges between the leaves.

    A part is always cut across its axis of the largest variance: outliers must not decide where to
    cut. Of points with the same value the older ones go first, which lets the search skip younger
    ones.
    """
    order, points, edges = np.arange(len(points)), points.copy(), [0]
    parts = [(0, len(points), leaves)]
    while parts:
        start, end, left = parts.pop()
        if left == 1:
            edges.append(end)
            continue
        lower = (left + 1) // 2
        here, size = points[start:end], (end - start) * lower // left
        offsets = here - here[0]
        squares, sums = np.einsum("ij,ij->j", offsets, offsets), np.einsum("ij->j", offsets)
        values = here[:, (squares - sums * sums / len(here)).argmax()]
        value = np.partition(values, size)[size]
        first = values < value
        first[np.flatnonzero(values == value)[: size - np.count_nonzero(first)]] = True
        moved = np.concatenate([np.flatnonzero(first), np.flatnonzero(~first)])
        order[start:end], points[start:end] = order[start:end][moved], here[moved]
        parts += [(start + size, end, left - lower), (start, start + size, lower)]
    return order, np.array(edges)


def _fill_leaves(
    tree: BoxTree, points: Singles, ids: Numbers, sizes: Numbers, edges: Numbers
) -> None:
    used = np.diff(edges)
    leaf = np.repeat(np.arange(len(used)), used)
    lane = np.arange(len(ids)) - edges[leaf]
    tree.marks[LEAVES] = tree.marks[PACKED] = len(used)
    tree.used[: len(used)] = used
    tree.points[leaf, :, lane] = points
    tree.ids[leaf, lane] = ids
    tree.sizes[leaf, lane] = sizes
    tree.home[ids] = leaf * SEATS + lane


def _stack_nodes(
    tree: BoxTree, low: Singles, high: Singles, largest: Numbers, oldest: Numbers, fill: int
) -> None:
    """Build level upon level of nodes over the boxes of all leaves, up to the root.

    The lowest have ``fill`` leaves each; those above hold as many as they can.
    """
    children, parents = ~np.arange(len(low)), tree.leaf_parent
    while True:
        nodes = tree.marks[NODES] + np.arange(len(low) // fill)
        tree.marks[NODES] += len(nodes)
        parents[np.where(children < 0, ~children, children)] = np.stack(
            [np.repeat(nodes, fill), np.tile(np.arange(fill), len(nodes))], axis=1
        )
        shape = (len(nodes), fill)
        low, high = low.reshape(*shape, -1), high.reshape(*shape, -1)
        largest, oldest = largest.reshape(shape), oldest.reshape(shape)
        tree.fill[nodes] = fill
        tree.low[nodes, :, :fill] = low.swapaxes(1, 2)
        tree.high[nodes, :, :fill] = high.swapaxes(1, 2)
        tree.largest[nodes, :fill] = largest
        tree.oldest[nodes, :fill] = oldest
        tree.children[nodes, :fill] = children.reshape(shape)
        if len(nodes) == 1:
            tree.marks[ROOT] = nodes[0]
            return
        low, high = low.min(axis=1), high.max(axis=1)
        largest, oldest = largest.max(axis=1), oldest.min(axis=1)
        children, parents = nodes, tree.node_parent
        fill = min(len(nodes), LANES)


def _make_room(tree: BoxTree, node: int) -> None:
    """Split the full nodes from above down to ``node``, so that it has a free slot."""
    while tree.fill[node] == LANES:
        top = node
        while tree.node_parent[top, 0] >= 0 and tree.fill[tree.node_parent[top, 0]] == LANES:
            top = int(tree.node_parent[top, 0])
        _split_node(tree, top)


def _split_node(tree: BoxTree, node: int) -> None:
    if tree.node_parent[node, 0] < 0:
        tree.marks[ROOT] = _add_node(tree)
        _adopt(tree, int(tree.marks[ROOT]), node)
    ages = tree.oldest[node].argsort()
    low, high = (box[node, : len(tree.origin), ages] for box in (tree.low, tree.high))
    lower, upper = (ages[part] for part in _parted(low, high))
    new = _add_node(tree)
    columns = [
        array[node].copy()
        for array in (tree.low, tree.high, tree.largest, tree.oldest, tree.children)
    ]
    for place, slots in ((node, lower), (new, upper)):
        _hang(tree, place, [column[..., slots] for column in columns])
    _fit(tree, node)
    _adopt(tree, int(tree.node_parent[node, 0]), new)


def _parted(low: Singles, high: Singles) -> tuple[Numbers, Numbers]:
    """Part the boxes into two sets that overlap least along some axis, each at least a quarter.

    Boxes come and stay in order of age where they are coincident, and are cut in the middle.
    """
    order = np.argsort(low + high, axis=0, kind="stable")
    tops = np.maximum.accumulate(np.take_along_axis(high, order, axis=0))
    bottoms = np.minimum.accumulate(np.take_along_axis(low, order, axis=0)[::-1])[::-1]
    extent = np.maximum(tops[-1] - bottoms[0], np.finfo(np.float32).tiny)
    cuts = np.arange(LANES // 4, LANES * 3 // 4 + 1)
    cuts = cuts[np.abs(cuts - LANES // 2).argsort(kind="stable")]
    overlaps = (tops[cuts - 1] - bottoms[cuts]) / extent
    place, axis = np.unravel_index(overlaps.argmin(), overlaps.shape)
    return order[: cuts[place], axis], order[cuts[place] :, axis]


def _hang(tree: BoxTree, node: int, columns: list[NDArray[np.generic]]) -> None:
    low, high, largest, oldest, children = columns
    fill = len(children)
    tree.fill[node] = fill
    tree.low[node, :, :fill], tree.high[node, :, :fill] = low, high
    tree.largest[node, :fill], tree.largest[node, fill:] = largest, -1
    tree.oldest[node, :fill] = oldest
    tree.children[node, :fill] = children
    for slot, child in enumerate(children.tolist()):
        parents = tree.leaf_parent if child < 0 else tree.node_parent
        parents[~child if child < 0 else child] = node, slot


def _add_node(tree: BoxTree) -> int:
    node = int(tree.marks[NODES])
    tree.marks[NODES] += 1
    return node


def _adopt(tree: BoxTree, above: int, node: int) -> None:
    slot = tree.fill[above]
    tree.fill[above] += 1
    tree.children[above, slot] = node
    tree.node_parent[node] = above, slot
    _fit(tree, node)


def _fit(tree: BoxTree, node: int) -> None:
    above, slot = tree.node_parent[node]
    fill = tree.fill[node]
    tree.low[above, :, slot] = tree.low[node, :, :fill].min(axis=1)
    tree.high[above, :, slot] = tree.high[node, :, :fill].max(axis=1)
    tree.largest[above, slot] = tree.largest[node, :fill].max()
    tree.oldest[above, slot] = tree.oldest[node, :fill].min()


def _padded(dimensions: int) -> int:
    return -(-dimensions // TOGETHER) * TOGETHER


def _empty(origin: NDArray[np.float64], capacity: int) -> BoxTree:
    wide = _padded(len(origin))
    leaves = 8 + capacity // 16  # a leaf in use holds 24 means or more, but for the first
    nodes = 2 * DEEPEST + leaves // 8
    return BoxTree(
        np.zeros(4, dtype=np.int64),
        origin,
        np.zeros(capacity, dtype=np.int32),
        np.zeros((leaves, wide, SEATS), dtype=np.float32),
        np.zeros((leaves, SEATS), dtype=np.int32),
        np.full((leaves, SEATS), -1, dtype=np.int32),
        np.zeros(leaves, dtype=np.int32),
        np.zeros(leaves, dtype=np.int32),
        np.full((leaves, 2), -1, dtype=np.int32),
        np.zeros((nodes, wide, LANES), dtype=np.float32),
        np.zeros((nodes, wide, LANES), dtype=np.float32),
        np.zeros((nodes, LANES), dtype=np.int32),
        np.full((nodes, LANES), -1, dtype=np.int32),
        np.zeros((nodes, LANES), dtype=np.int32),
        np.zeros(nodes, dtype=np.int32),
        np.full((nodes, 2), -1, dtype=np.int32),
    )
