"""The stream in compiled code: the steps of ``steps.py``, many records at a time, with an index."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tulle.condense.stream._boxes import insert, move
from tulle.condense.stream._tree import Scratch, Tree, search
from tulle.condense.stream.groups import GroupArrays
from tulle.jit import inlined, kernel

DONE, FULL, WAIT, WAKE, CROWDED = 0, 1, 2, 3, 4  # why `absorb` came back


@kernel
def absorb(
    groups: GroupArrays,
    tree: Tree,
    work: Scratch,
    records: Any,
    levels: Any,
    start: int,
    size: int,
    wake: int,
    strict: bool,
    tie: float,
) -> tuple[int, int, int, int]:
    """Condenses records until the end or until somebody else has to act.

    Returns the next record, the number of groups, the reason and whom it concerns:
    FULL = the index has no room for one more group; WAIT = no group may take the next record;
    WAKE = this group has reached ``wake`` members, which a waiting record needs, and is not
    settled yet; CROWDED = this leaf of the index is full and must be split.
    """
    for row in range(start, len(records)):
        if size == len(tree.home):
            return row, size, FULL, -1
        group = search(tree, groups, work, records[row], levels[row] - 1, tie)
        if group < 0:
            return row, size, WAIT, -1
        add(groups, group, records[row], levels[row])
        if groups.counts[group] >= wake:
            return row + 1, size, WAKE, group
        size, crowded = _settle(groups, tree, group, size, strict)
        if crowded >= 0:
            return row + 1, size, CROWDED, crowded
    return len(records), size, DONE, -1


@inlined
def add(groups: GroupArrays, group: int, record: Any, level: int) -> None:
    """Updates a group's statistics by one record (Welford)."""
    dimensions = len(record)
    groups.counts[group] += 1
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
def settle(groups: GroupArrays, tree: Tree, group: int, size: int, strict: bool) -> tuple[int, int]:
    """Splits a group that is due and updates the index; the number of groups, a full leaf or -1."""
    return _settle(groups, tree, group, size, strict)


@inlined
def _settle(
    groups: GroupArrays, tree: Tree, group: int, size: int, strict: bool
) -> tuple[int, int]:
    count = groups.counts[group]
    due = count * count >= 2 * groups.level_sums[group]
    if due and (not strict or count // 2 >= groups.levels[group]):
        return size + 1, _split_in_tree(groups, tree, group, size)
    move(tree, groups, group)
    return size, -1


@kernel
def _split_in_tree(groups: GroupArrays, tree: Tree, group: int, new: int) -> int:
    """Splits a group, in the index too; a leaf that is full now, or -1."""
    _split(groups, group, new)
    move(tree, groups, group)
    return insert(tree, groups, new, group)


@kernel
def _split(groups: GroupArrays, group: int, new: int) -> None:
    """Halves a group along its longest axis, as ``steps.split`` does."""
    dimensions = groups.means.shape[1]
    count = groups.counts[group]
    larger = (count + 1) // 2
    fraction = larger / count
    covariance = np.empty((dimensions, dimensions))
    entry = 0
    for i in range(dimensions):
        for j in range(i, dimensions):
            covariance[i, j] = groups.scatters[group, entry] / float(count)
            covariance[j, i] = covariance[i, j]
            entry += 1
    values, vectors = np.linalg.eigh(covariance)
    variance = max(values[-1], 0.0)
    axis = vectors[:, -1].copy()
    if axis[np.argmax(np.abs(axis))] < 0.0:
        axis = -axis
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
    groups.levels[new] = groups.levels[group]
    total = groups.level_sums[group]
    share = (2 * total * larger + count) // (2 * count)
    groups.level_sums[group] = share
    groups.level_sums[new] = total - share
    groups.families[new] = groups.families[group]
