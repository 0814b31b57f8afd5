"""The engine of a stream: the kernels with their index, and what the state machine asks of them."""

from __future__ import annotations

from enum import Enum

import numpy as np

from tulle._moments import GroupMoments
from tulle._types import Floats, Ints
from tulle.stream._groups import StreamGroups

# *Nearest* means: the smallest squared distance between the record and a group's mean, in
# standardised units. Groups within ``COINCIDENT * d`` of the record count as equally near, and the
# oldest of equally near groups takes the record. Without that rule a stream with many identical
# records compares thousands of equal distances, to no one's gain.
COINCIDENT = 1e-8
NOBODY = 2**62  # no group ever gets that large: nobody waits


class Event(Enum):
    """Why the engine came back before the end of a batch."""

    DONE = 0
    WAIT = 2  # no group may take the next record
    WAKE = 3  # a group has as many people as a waiting record needs


class Engine:
    """Lets records join their nearest groups, and splits groups that are due.

    A record of level p may join a group of at least p - 1 people: with it they are p. Such a record
    is one person of its own (``each`` = 1). Where people have several records, it may be of
    somebody who is in the group already: then the group must hold p people, and the caller counts
    who is new (``each`` = 0).
    """

    def __init__(self, groups: StreamGroups, *, strict: bool, each: int = 1) -> None:
        from tulle.stream._index import scratch

        self.groups = groups
        self.strict = strict
        self.each = each
        self.tie = COINCIDENT * groups.dimensions
        self.work = scratch(groups.dimensions)
        self._build()

    def absorb(
        self, records: Floats, levels: Ints, start: int, wake: int
    ) -> tuple[int, Event, int]:
        """Take in records from ``start`` on.

        Returns the next one, why the engine came back, and which group that concerns.
        """
        return self._absorb(records, levels, start, wake, unsettled=-1)

    def add(self, group: int, record: Floats, level: int) -> None:
        """Add a record to a group that is still to be settled."""
        from tulle.stream._kernels import join

        join(self.groups.arrays, group, record, level, self.each)

    def settle(self, group: int) -> None:
        """Split a group if it is due."""
        if self.groups.size == len(self.tree.home):
            self._grow()
        nobody = np.empty((0, self.groups.dimensions)), np.empty(0, dtype=np.int64)
        self._absorb(*nobody, start=0, wake=NOBODY, unsettled=group)

    def _absorb(
        self, records: Floats, levels: Ints, start: int, wake: int, unsettled: int
    ) -> tuple[int, Event, int]:
        from tulle.stream import _index, _kernels

        if not len(self.groups):  # and no index
            return start, Event.WAIT if start < len(records) else Event.DONE, -1
        while True:
            start, self.groups.size, reason, concerned = _kernels.absorb(
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
            if reason == _kernels.FULL:
                self._grow()
            elif reason == _kernels.CROWDED:
                if not _index.split_leaf(self.tree, concerned):
                    self._grow()
            else:
                return start, Event(reason), concerned

    def append(self, moments: GroupMoments, people: Ints | None = None) -> None:
        """Add new groups."""
        self.groups.append(moments, people)
        self._build()

    def _grow(self) -> None:
        """Repack the index with so much room that it will be worn before it is full."""
        self.groups.reserve(self.groups.size + self.groups.size // 2 + 1)
        self._build()

    def _build(self) -> None:
        from tulle.stream._index import build

        if len(self.groups):
            self.tree = build(self.groups)
