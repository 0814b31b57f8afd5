"""The upkeep of the index while means move: lanes, boxes, and their parents."""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle._jit import inlined, int64, kernel, part
from tulle.stream._groups import GroupArrays
from tulle.stream._tree import LEAVES, SEATS, BoxTree

RETIGHTEN = 32


@inlined
def move(tree: BoxTree, groups: GroupArrays, group: int) -> None:
    """Update the index with a group's new mean and size."""
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
    """Move a group to another lane."""
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
