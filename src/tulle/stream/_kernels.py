"""The stream in compiled code: the steps of ``_engines.py``, by batches, with an index."""

from __future__ import annotations

import math
from typing import Any

from tulle._jit import borrowed, inlined, kernel, part
from tulle.stream._boxes import insert, move
from tulle.stream._groups import CONVERGED, SQUARINGS, GroupArrays
from tulle.stream._tree import BoxTree, Scratch, search

DONE, FULL, WAIT, WAKE, CROWDED = 0, 1, 2, 3, 4  # why `absorb` came back


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
    groups, tree, work, records, levels = borrowed((groups, tree, work, records, levels))
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


@inlined
def _due(groups: GroupArrays, group: int, strict: bool) -> bool:
    """Return whether a group must be split, as ``_engines.splits`` does."""
    people = groups.people[group]
    due = people * groups.counts[group] >= 2 * groups.level_sums[group]
    return due and (not strict or people // 2 >= groups.levels[group])


@part
def _split(groups: GroupArrays, work: Scratch, group: int, new: int) -> None:
    """Halve a group along its longest axis, as ``_engines.split`` does."""
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
    """Find the first eigenvector of a matrix, as ``longest_axis`` does; return its eigenvalue."""
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
