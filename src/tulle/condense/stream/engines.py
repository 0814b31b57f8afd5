"""Two ways to run the same steps: NumPy for small streams, compiled with an index for large ones.

Both work on the same :class:`Groups` and give the same bits, so a stream may change from one to
the other at any record.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

import numpy as np

from tulle.condense.stream import steps
from tulle.condense.stream.groups import Groups
from tulle.moments import Floats, GroupMoments, Ints

NOBODY = 2**62  # no group ever gets that large: nobody waits


class Event(Enum):
    """Why an engine came back before the end of a batch."""

    DONE = 0
    WAIT = 2  # no group may take the next record
    WAKE = 3  # a group has as many members as a waiting record needs


class Engine(Protocol):
    """What the state machine asks of an engine."""

    def absorb(
        self, records: Floats, levels: Ints, start: int, wake: int
    ) -> tuple[int, Event, int]:
        """Condenses from ``start`` on; the next record, why it stopped, the group concerned."""

    def add(self, group: int, record: Floats, level: int) -> None:
        """Adds a record to a group that is not settled yet."""

    def settle(self, group: int) -> None:
        """Splits a group if it is due."""

    def append(self, moments: GroupMoments) -> None:
        """Takes new groups."""


class PlainEngine:
    """A linear search in NumPy: quick to start, slow with many groups."""

    def __init__(self, groups: Groups, *, strict: bool) -> None:
        self.groups = groups
        self.strict = strict

    def absorb(
        self, records: Floats, levels: Ints, start: int, wake: int
    ) -> tuple[int, Event, int]:
        for row in range(start, len(records)):
            group = steps.nearest(self.groups, records[row], int(levels[row]))
            if group < 0:
                return row, Event.WAIT, -1
            self.add(group, records[row], int(levels[row]))
            if self.groups.arrays.counts[group] >= wake:
                return row + 1, Event.WAKE, group
            self.settle(group)
        return len(records), Event.DONE, -1

    def add(self, group: int, record: Floats, level: int) -> None:
        steps.add(self.groups, group, record, level)

    def settle(self, group: int) -> None:
        if steps.splits(self.groups.arrays, group, self.strict):
            steps.split(self.groups, group)

    def append(self, moments: GroupMoments) -> None:
        self.groups.append(moments)


class TreeEngine:
    """The kernels with their index."""

    def __init__(self, groups: Groups, *, strict: bool) -> None:
        from tulle.condense.stream import _kernels, tree

        self.groups = groups
        self.strict = strict
        self.tie = steps.COINCIDENT * groups.dimensions
        self.kernels = _kernels
        self.index = tree
        self.work = tree.scratch(groups.dimensions)
        self.tree = tree.build(groups)

    def absorb(
        self, records: Floats, levels: Ints, start: int, wake: int
    ) -> tuple[int, Event, int]:
        return self._absorb(records, levels, start, wake, unsettled=-1)

    def add(self, group: int, record: Floats, level: int) -> None:
        steps.add(self.groups, group, record, level)  # rare, and the same bits

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
                self.strict,
                self.tie,
            )
            unsettled = -1
            if reason == self.kernels.FULL:
                self._grow()
            elif reason == self.kernels.CROWDED:
                self._relieve(concerned)
            else:
                return start, Event(reason), concerned

    def append(self, moments: GroupMoments) -> None:
        self.groups.append(moments)
        self.tree = self.index.build(self.groups)

    def _relieve(self, leaf: int) -> None:
        if not self.index.split_leaf(self.tree, leaf):
            self._grow()

    def _grow(self) -> None:
        """Packs the index anew, with so much room that it will be worn before it is full."""
        self.groups.reserve(self.groups.size + self.groups.size // 2 + 1)
        self.tree = self.index.build(self.groups)
