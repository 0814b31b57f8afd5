"""The owner of the index: builds it from the groups' means and splits what is full.

These are rare events (one leaf in some thousand records), so they are plain NumPy. All leaves
have the same depth, however the stream drifts, because a full node hands one half upward.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tulle.condense.stream._tree import (
    FAN,
    FAR,
    LANES,
    LEAVES,
    NODES,
    ROOT,
    Scratch,
    Tree,
)
from tulle.condense.stream.groups import Groups

LEAF_FILL = 80  # of 128 lanes: a new leaf has room to grow
NODE_FILL = 10  # of 16 slots
DEEPEST = 32  # more levels than memory could hold
Numbers = NDArray[np.int64]
Singles = NDArray[np.float32]


def build(groups: Groups) -> Tree:
    """A packed tree over all groups, with room for half as many more at most.

    Then it is time to pack them anew: new groups go where those are that they came from, and by
    and by boxes overlap.
    """
    used = groups.view()
    origin = used.means.mean(axis=0)
    tree = _empty(origin, min(groups.capacity, 64 + groups.size * 3 // 2))
    points = (used.means - origin).astype(np.float32)
    height, room = 1, LEAF_FILL * NODE_FILL
    while room < groups.size:
        height, room = height + 1, room * NODE_FILL
    numbers = np.arange(groups.size)
    tree.marks[ROOT] = _build_node(tree, points, numbers, used.counts, height)
    return tree


def scratch(dimensions: int) -> Scratch:
    """Working memory for searches; the stack is deeper than any tree can make it."""
    return Scratch(
        np.zeros(_even(dimensions), dtype=np.float32),
        np.zeros(LANES, dtype=np.float32),
        np.zeros(FAN, dtype=np.float32),
        np.zeros((DEEPEST * FAN, 2), dtype=np.int32),
        np.zeros(DEEPEST * FAN, dtype=np.float32),
    )


def split_leaf(tree: Tree, leaf: int) -> bool:
    """Moves the upper half of a full leaf into a new one; False if the arrays have no room."""
    if tree.marks[LEAVES] == len(tree.used) or tree.marks[NODES] + DEEPEST > len(tree.fill):
        return False
    axis = _widest(tree.points[leaf].T)
    order = np.lexsort((tree.ids[leaf], tree.points[leaf, axis]))
    lower, upper = (
        (tree.points[leaf][:, lanes], tree.ids[leaf][lanes], tree.sizes[leaf][lanes])
        for lanes in (order[: LANES // 2], order[LANES // 2 :])
    )
    new = _add_leaf(tree, *upper)
    _fill_leaf(tree, leaf, *lower)
    _make_room(tree, int(tree.leaf_parent[leaf, 0]))
    _adopt(tree, int(tree.leaf_parent[leaf, 0]), ~new)
    _fit_upward(tree, leaf)
    return True


def _build_node(tree: Tree, points: Singles, numbers: Numbers, counts: Numbers, height: int) -> int:
    node = _add_node(tree)
    parts = max(1, -(-len(numbers) // (LEAF_FILL * NODE_FILL ** (height - 1))))
    for part in _partition(points, numbers, parts):
        if height > 1:
            _adopt(tree, node, _build_node(tree, points, part, counts, height - 1))
        else:
            wide = np.zeros((tree.points.shape[1], len(part)), dtype=np.float32)
            wide[: points.shape[1]] = points[part].T
            _adopt(tree, node, ~_add_leaf(tree, wide, part, counts[part]))
    return node


def _partition(points: Singles, numbers: Numbers, parts: int) -> list[Numbers]:
    """Cuts groups into compact parts of equal size, always across the widest axis."""
    if parts == 1:
        return [numbers]
    inside = points[numbers]
    axis = _widest(inside)
    # stable: coincident groups stay together by age, which lets the search skip younger ones
    order = numbers[np.argsort(inside[:, axis], kind="stable")]
    cut = len(order) * (parts // 2) // parts
    left = _partition(points, order[:cut], parts // 2)
    return left + _partition(points, order[cut:], parts - parts // 2)


def _widest(points: Singles) -> int:
    """The axis with the largest variance: outliers shall not decide where to cut."""
    return int(np.argmax(points.var(axis=0, dtype=np.float64)))


def _add_leaf(tree: Tree, points: Singles, ids: Numbers, sizes: Numbers) -> int:
    leaf = int(tree.marks[LEAVES])
    tree.marks[LEAVES] += 1
    _fill_leaf(tree, leaf, points, ids, sizes)
    return leaf


def _fill_leaf(tree: Tree, leaf: int, points: Singles, ids: Numbers, sizes: Numbers) -> None:
    used = len(ids)
    tree.used[leaf] = used
    tree.touched[leaf] = 0
    tree.points[leaf, :, :used], tree.points[leaf, :, used:] = points, FAR
    tree.ids[leaf, :used], tree.ids[leaf, used:] = ids, -1
    tree.sizes[leaf, :used], tree.sizes[leaf, used:] = sizes, -1
    tree.home[ids] = leaf * LANES + np.arange(used)


def _add_node(tree: Tree) -> int:
    node = int(tree.marks[NODES])
    tree.marks[NODES] += 1
    return node


def _make_room(tree: Tree, node: int) -> None:
    """Splits the full nodes from above down to ``node``, so that it has a free slot."""
    while tree.fill[node] == FAN:
        top = node
        while tree.node_parent[top, 0] >= 0 and tree.fill[tree.node_parent[top, 0]] == FAN:
            top = int(tree.node_parent[top, 0])
        _split_node(tree, top)


def _split_node(tree: Tree, node: int) -> None:
    """Moves the upper half of a node's children into a new node beside it."""
    if tree.node_parent[node, 0] < 0:
        root = _add_node(tree)
        tree.marks[ROOT] = root
        _adopt(tree, root, node)
    centres = tree.low[node] + tree.high[node]
    axis = np.argmax(np.ptp(centres, axis=1))
    children = tree.children[node][np.lexsort((tree.oldest[node], centres[axis]))]
    new = _add_node(tree)
    tree.fill[node] = 0
    tree.largest[node] = -1
    for rank, child in enumerate(children):
        _adopt(tree, node if rank < FAN // 2 else new, int(child))
    _fit(tree, node)
    _adopt(tree, int(tree.node_parent[node, 0]), new)


def _adopt(tree: Tree, node: int, child: int) -> None:
    """Hangs a leaf (``~leaf``) or a node below a node, in its next slot."""
    slot = tree.fill[node]
    tree.fill[node] += 1
    tree.children[node, slot] = child
    parents = tree.leaf_parent if child < 0 else tree.node_parent
    parents[~child if child < 0 else child] = node, slot
    _fit(tree, child)


def _fit_upward(tree: Tree, leaf: int) -> None:
    """Fits the boxes above a leaf to what they hold."""
    _fit(tree, ~leaf)
    node = int(tree.leaf_parent[leaf, 0])
    while tree.node_parent[node, 0] >= 0:
        _fit(tree, node)
        node = int(tree.node_parent[node, 0])


def _fit(tree: Tree, child: int) -> None:
    """Fits the box of one leaf or node, in the slot of its parent."""
    if child < 0:
        node, slot = tree.leaf_parent[~child]
        used = tree.used[~child]
        low = high = tree.points[~child, :, :used]
        largest, oldest = tree.sizes[~child, :used], tree.ids[~child, :used]
    else:
        node, slot = tree.node_parent[child]
        used = tree.fill[child]
        low, high = tree.low[child, :, :used], tree.high[child, :, :used]
        largest, oldest = tree.largest[child, :used], tree.oldest[child, :used]
    tree.low[node, :, slot] = low.min(axis=1)
    tree.high[node, :, slot] = high.max(axis=1)
    tree.largest[node, slot] = largest.max()
    tree.oldest[node, slot] = oldest.min()


def _even(dimensions: int) -> int:
    return dimensions + dimensions % 2


def _empty(origin: NDArray[np.float64], capacity: int) -> Tree:
    wide = _even(len(origin))
    leaves = 8 + capacity // 40  # a leaf in use holds 40 means or more
    nodes = 2 * DEEPEST + leaves // 4
    return Tree(
        np.zeros(3, dtype=np.int64),
        origin,
        np.zeros(capacity, dtype=np.int32),
        np.zeros((leaves, wide, LANES), dtype=np.float32),
        np.zeros((leaves, LANES), dtype=np.int32),
        np.zeros((leaves, LANES), dtype=np.int32),
        np.zeros(leaves, dtype=np.int32),
        np.zeros(leaves, dtype=np.int32),
        np.full((leaves, 2), -1, dtype=np.int32),
        np.zeros((nodes, wide, FAN), dtype=np.float32),
        np.zeros((nodes, wide, FAN), dtype=np.float32),
        np.zeros((nodes, FAN), dtype=np.int32),
        np.full((nodes, FAN), -1, dtype=np.int32),
        np.zeros((nodes, FAN), dtype=np.int32),
        np.zeros(nodes, dtype=np.int32),
        np.full((nodes, 2), -1, dtype=np.int32),
    )
