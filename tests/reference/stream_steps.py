"""The steps of a stream in NumPy: an obvious oracle of the kernels, to the last bit.

Each does what the kernel does, in the same order: find the group, add the record, split the group.
"""

from __future__ import annotations

import math

import numpy as np

from tulle._moments import GroupMoments
from tulle._types import Floats, Ints
from tulle.stream._engines import COINCIDENT, Event
from tulle.stream._groups import CONVERGED, SQUARINGS, GroupArrays, StreamGroups, triangle, unpack


def nearest(groups: StreamGroups, record: Floats, need: int) -> int:
    """Return the closest group of at least ``need`` people, or -1."""
    used = groups.view()
    admissible = np.flatnonzero(used.people >= need)
    if not len(admissible):
        return -1
    distances = np.zeros(len(admissible))
    # dimension after dimension: the kernel adds in this order too
    for dimension in range(groups.dimensions):
        offsets = record[dimension] - used.means[admissible, dimension]
        distances += offsets * offsets
    distances[distances <= COINCIDENT * groups.dimensions] = 0.0
    return int(admissible[np.argmin(distances)])


def add(groups: StreamGroups, group: int, record: Floats, level: int, each: int) -> None:
    """Update a group's statistics with one record (Welford), which is ``each`` people."""
    arrays = groups.arrays
    arrays.counts[group] += 1
    arrays.people[group] += each
    count = float(arrays.counts[group])
    offset = record - arrays.means[group]
    arrays.means[group] += offset / count
    rows, columns = triangle(groups.dimensions)
    arrays.scatters[group] += offset[rows] * offset[columns] * ((count - 1.0) / count)
    arrays.levels[group] = max(arrays.levels[group], level)
    arrays.level_sums[group] += level


def splits(arrays: GroupArrays, group: int, strict: bool) -> bool:
    """Tell whether a group is due: n >= 2 Ps / n; strict: and halves hold its largest level.

    Where people have several records, n on the left is the number of people.
    """
    count, people = int(arrays.counts[group]), int(arrays.people[group])
    due = people * count >= 2 * int(arrays.level_sums[group])
    return due and (not strict or people // 2 >= int(arrays.levels[group]))


def split(groups: StreamGroups, group: int) -> int:
    """Halve a group along its longest axis, as if it were uniform there; return the new group.

    With fractions f and 1 - f, the parts are uniform on neighbouring intervals of length f a and
    (1 - f) a, a = sqrt(12 lambda_1). Total n, Fs, Sc and Ps stay what they were; both parts keep
    the largest level. The paper's case is f = 1/2.
    """
    groups.reserve(groups.size + 1)
    arrays, new = groups.arrays, groups.size
    groups.size += 1
    count = int(arrays.counts[group])
    larger = (count + 1) // 2
    fraction = larger / count
    covariance = arrays.scatters[group] / float(count)
    variance, axis = longest_axis(covariance, groups.dimensions)
    width = math.sqrt(12.0 * variance)
    rows, columns = triangle(groups.dimensions)
    outer = axis[rows] * axis[columns] * variance
    rest = 1.0 - fraction
    arrays.counts[new] = count - larger
    arrays.counts[group] = larger
    arrays.people[new] = arrays.people[group] // 2
    arrays.people[group] -= arrays.people[new]
    arrays.means[new] = arrays.means[group] + axis * (fraction * 0.5 * width)
    arrays.means[group] -= axis * (rest * 0.5 * width)
    arrays.scatters[new] = (covariance - outer * (1.0 - rest * rest)) * float(count - larger)
    arrays.scatters[group] = (covariance - outer * (1.0 - fraction * fraction)) * float(larger)
    arrays.levels[new] = arrays.levels[group]
    total = int(arrays.level_sums[group])
    share = (2 * total * larger + count) // (2 * count)  # to the nearest whole level
    arrays.level_sums[group] = share
    arrays.level_sums[new] = total - share
    arrays.families[new] = arrays.families[group]
    return new


def longest_axis(covariance: Floats, dimensions: int) -> tuple[float, Floats]:
    """Compute the largest eigenvalue of a packed covariance, and its eigenvector with a fixed sign.

    A matrix that is squared again and again becomes the outer product of its first eigenvector
    with itself. Only that vector is wanted, so this is quicker than all eigenvectors; and it
    does not depend on whose linear algebra is installed: the kernel gives the same bits.
    """
    full = unpack(covariance, dimensions)
    trace = _sum(np.diagonal(full))
    if not trace > 0.0:
        return 0.0, np.eye(dimensions)[0]
    power = full / trace
    for _ in range(SQUARINGS):
        square = np.zeros_like(power)
        for row in power:  # the order of the kernel
            square += row[:, None] * row
        trace = _sum(np.diagonal(square))
        power = square / trace
        if trace > CONVERGED:
            break
    axis = power[np.argmax(np.diagonal(power))]
    axis = axis / math.sqrt(_sum(axis * axis))
    along = np.cumsum(full * axis, axis=1)[:, -1]
    return max(_sum(along * axis), 0.0), axis


def _sum(values: Floats) -> float:
    """Add from first to last, as a loop does."""
    return float(np.cumsum(values)[-1])


class PlainEngine:
    """A linear search in NumPy: quick to start, slow with many groups."""

    def __init__(self, groups: StreamGroups, *, strict: bool, each: int = 1) -> None:
        self.groups = groups
        self.strict = strict
        self.each = each

    def absorb(
        self, records: Floats, levels: Ints, start: int, wake: int
    ) -> tuple[int, Event, int]:
        for row in range(start, len(records)):
            group = nearest(self.groups, records[row], int(levels[row]) - self.each)
            if group < 0:
                return row, Event.WAIT, -1
            self.add(group, records[row], int(levels[row]))
            if self.groups.arrays.people[group] >= wake:
                return row + 1, Event.WAKE, group
            self.settle(group)
        return len(records), Event.DONE, -1

    def add(self, group: int, record: Floats, level: int) -> None:
        add(self.groups, group, record, level, self.each)

    def settle(self, group: int) -> None:
        if splits(self.groups.arrays, group, self.strict):
            split(self.groups, group)

    def append(self, moments: GroupMoments, people: Ints | None = None) -> None:
        self.groups.append(moments, people)
