"""The upkeep of the index while means move: lanes, boxes, and their way upward."""

from __future__ import annotations

import numpy as np

from tulle.condense.stream._tree import LANES, ZERO, Tree
from tulle.condense.stream.groups import GroupArrays
from tulle.jit import inlined, kernel

RETIGHTEN = 64  # updates of a leaf before its boxes are shrunk again


@inlined
def move(tree: Tree, groups: GroupArrays, group: int) -> None:
    """Takes over a group's new mean and size."""
    leaf, lane = divmod(tree.home[group], LANES)
    tree.sizes[leaf, lane] = groups.counts[group]
    for k in range(groups.means.shape[1]):
        tree.points[leaf, k, lane] = np.float32(groups.means[group, k] - tree.origin[k])
    tree.touched[leaf] += 1
    if tree.touched[leaf] >= RETIGHTEN:
        _tighten(tree, leaf)
    else:
        _widen(tree, leaf, lane)


@kernel
def insert(tree: Tree, groups: GroupArrays, group: int, sibling: int) -> int:
    """Puts a new group into the leaf of the one that it came from; the leaf, if it is full now."""
    leaf = tree.home[sibling] // LANES
    lane = tree.used[leaf]
    tree.used[leaf] += 1
    tree.ids[leaf, lane] = group
    tree.home[group] = leaf * LANES + lane
    for k in range(tree.points.shape[1]):
        tree.points[leaf, k, lane] = ZERO
    move(tree, groups, group)
    return leaf if tree.used[leaf] == LANES else -1


@inlined
def _widen(tree: Tree, leaf: int, lane: int) -> None:
    """Lets the boxes above a lane hold it, upward until nothing changes."""
    node, slot = tree.leaf_parent[leaf, 0], tree.leaf_parent[leaf, 1]
    changed = True
    while changed and node >= 0:
        changed = False
        for k in range(tree.points.shape[1]):
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


@kernel
def _tighten(tree: Tree, leaf: int) -> None:
    """Shrinks the boxes above a leaf to what they hold."""
    tree.touched[leaf] = 0
    _box_of_leaf(tree, leaf)
    node = tree.leaf_parent[leaf, 0]
    while tree.node_parent[node, 0] >= 0:
        _box_of_node(tree, node)
        node = tree.node_parent[node, 0]


@inlined
def _box_of_leaf(tree: Tree, leaf: int) -> None:
    node, slot = tree.leaf_parent[leaf, 0], tree.leaf_parent[leaf, 1]
    used = tree.used[leaf]
    for k in range(tree.points.shape[1]):
        low = tree.points[leaf, k, 0]
        high = low
        for lane in range(1, used):
            value = tree.points[leaf, k, lane]
            low = min(low, value)
            high = max(high, value)
        tree.low[node, k, slot] = low
        tree.high[node, k, slot] = high
    largest = tree.sizes[leaf, 0]
    oldest = tree.ids[leaf, 0]
    for lane in range(1, used):
        largest = max(largest, tree.sizes[leaf, lane])
        oldest = min(oldest, tree.ids[leaf, lane])
    tree.largest[node, slot] = largest
    tree.oldest[node, slot] = oldest


@inlined
def _box_of_node(tree: Tree, node: int) -> None:
    above, place = tree.node_parent[node, 0], tree.node_parent[node, 1]
    fill = tree.fill[node]
    for k in range(tree.low.shape[1]):
        low = tree.low[node, k, 0]
        high = tree.high[node, k, 0]
        for slot in range(1, fill):
            low = min(low, tree.low[node, k, slot])
            high = max(high, tree.high[node, k, slot])
        tree.low[above, k, place] = low
        tree.high[above, k, place] = high
    largest = tree.largest[node, 0]
    oldest = tree.oldest[node, 0]
    for slot in range(1, fill):
        largest = max(largest, tree.largest[node, slot])
        oldest = min(oldest, tree.oldest[node, slot])
    tree.largest[above, place] = largest
    tree.oldest[above, place] = oldest
