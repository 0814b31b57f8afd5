"""Two ways to run the same steps: NumPy for small streams, compiled with an index for large ones.

Both work on the same :class:`StreamGroups` and give the same bits, so a stream may change from
one to the other at any record.
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np

from tulle._moments import GroupMoments
from tulle._types import Floats, Ints
from tulle.stream._groups import CONVERGED, SQUARINGS, GroupArrays, StreamGroups, triangle, unpack

# One step of the stream at a time, in NumPy: find the group, add the record, split the group.
# Small streams run on these functions and never wait for a compiler; the kernels do the same
# operations in the same order, so that both give the same bits. *Nearest* means: the smallest
# squared distance between the record and a group's mean, in standardised units. Groups within
# ``COINCIDENT * d`` of the record count as equally near, and the oldest of equally near groups
# takes the record. Without that rule a stream with many identical records compares thousands of
# equal distances, to no one's gain.

COINCIDENT = 1e-8


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


NOBODY = 2**62  # no group ever gets that large: nobody waits


class Event(Enum):
    """Why an engine came back before the end of a batch."""

    DONE = 0
    WAIT = 2  # no group may take the next record
    WAKE = 3  # a group has as many people as a waiting record needs


# What the state machine asks of either: to ``absorb`` records from ``start`` on, and say which is
# next, why it came back and which group that concerns; to ``add`` a record to a group that is not
# settled yet; to ``settle`` it, which splits it if it is due; and to ``append`` new groups. A
# record of level p may join a group of at least p - 1 people: with it they are p. Such a record is
# one person of its own (``each`` = 1). Where people have several records, it may be of somebody who
# is in the group already: then the group must hold p people, and the caller counts who is new
# (``each`` = 0).


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


class TreeEngine:
    """The kernels with their index."""

    def __init__(self, groups: StreamGroups, *, strict: bool, each: int = 1) -> None:
        from tulle.stream import _index as tree
        from tulle.stream import _kernels

        self.groups = groups
        self.strict = strict
        self.each = each
        self.tie = COINCIDENT * groups.dimensions
        self.kernels = _kernels
        self.index = tree
        self.work = tree.scratch(groups.dimensions)
        self.tree = tree.build(groups)

    def absorb(
        self, records: Floats, levels: Ints, start: int, wake: int
    ) -> tuple[int, Event, int]:
        return self._absorb(records, levels, start, wake, unsettled=-1)

    def add(self, group: int, record: Floats, level: int) -> None:
        add(self.groups, group, record, level, self.each)  # rare, and the same bits

    def settle(self, group: int) -> None:
        if self.groups.size == len(self.tree.home):
            self._grow()
        nobody = np.empty((0, self.groups.dimensions)), np.empty(0, dtype=np.int64)
        self._absorb(*nobody, start=0, wake=NOBODY, unsettled=group)

    def _absorb(
        self, records: Floats, levels: Ints, start: int, wake: int, unsettled: int
    ) -> tuple[int, Event, int]:
        while True:
            start, self.groups.size, reason, concerned = self.kernels.absorb(
                self.groups.arrays,
                self.tree,
                self.work,
                records,
                levels,
                start,
                self.groups.size,
                unsettled,
                wake,
                self.each,
                self.strict,
                self.tie,
            )
            unsettled = -1
            if reason == self.kernels.FULL:
                self._grow()
            elif reason == self.kernels.CROWDED:
                if not self.index.split_leaf(self.tree, concerned):
                    self._grow()
            else:
                return start, Event(reason), concerned

    def append(self, moments: GroupMoments, people: Ints | None = None) -> None:
        self.groups.append(moments, people)
        self.tree = self.index.build(self.groups)

    def _grow(self) -> None:
        """Repack the index with so much room that it will be worn before it is full."""
        self.groups.reserve(self.groups.size + self.groups.size // 2 + 1)
        self.tree = self.index.build(self.groups)


Engine = PlainEngine | TreeEngine
