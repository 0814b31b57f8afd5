"""The stream as a state machine on standardised numbers: records in, groups maintained.

It knows nothing of tables, files or seeds. The same records in the same order give the same
groups, bit by bit, whether they come one by one or in batches, and whether the run was
interrupted or not. Nothing is dropped: seen = condensed + waiting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tulle._moments import GroupMoments
from tulle._plurals import counted
from tulle._types import Floats, Ints
from tulle.errors import PrivacyError
from tulle.stream._engines import NOBODY, Engine, Event
from tulle.stream._groups import Scaling, StreamGroups
from tulle.stream._held import Held, HeldBack
from tulle.stream._people import GroupMembers
from tulle.stream._snapshots import Arrivals, Change, Published, publish
from tulle.table._codecs import Affine, Problem, refuse

# How a stream went: groups, waiting records and drift over time, in bounded memory.

FIRST_INTERVAL = 1_000
LONGEST = 256
COARSE = 10.0  # standard deviations: the sum of all records is kept in steps of this


class Progress(NamedTuple):
    """How a stream stood when so many records had been seen."""

    seen: int
    groups: int
    waiting: int
    drift: float
    mean: list[float]  # of the records since the row before


@dataclass
class History:
    """One row every ``interval`` records; every other row goes, and the interval doubles, when
    the rows become too many.

    ``drift`` is how far the records of an interval lie from the very first, on average: the
    distance between the two means in standard deviations, divided by the root of the number of
    dimensions. It is a mean over half an interval of records at least, or there is no row yet;
    and sums are kept so coarsely that no difference of two tells a record. An interval's mean is
    right to a hundredth of a standard deviation all the same.
    """

    interval: int = FIRST_INTERVAL
    rows: list[Progress] = field(default_factory=list)
    condensed: int = 0
    total: list[float] = field(default_factory=list)

    def note(self, seen: int, counts: Any, means: Floats, waiting: int) -> None:
        """Add a row, unless most records wait; the first interval is the origin of the drift."""
        condensed, total = int(counts.sum()), np.rint(counts @ means / COARSE) * COARSE
        fresh = condensed - self.condensed
        if fresh < self.interval / 2:
            return
        before = np.array(self.total) if self.total else np.zeros(len(total))
        mean = (total - before) / fresh
        first = np.array(self.rows[0].mean) if self.rows else mean
        drift = math.sqrt(float(((mean - first) ** 2).mean()))
        self.rows.append(Progress(seen, len(counts), waiting, drift, mean.tolist()))
        self.condensed, self.total = condensed, total.tolist()
        if len(self.rows) > LONGEST:
            self.rows = [self.rows[0], *self.rows[2::2]]
            self.interval *= 2

    def moved(self, way: Affine) -> History:
        rows = [
            row._replace(mean=(np.array(row.mean) @ way.linear + way.shift).tolist())
            for row in self.rows
        ]
        total = []
        if self.total:
            total = (np.array(self.total) @ way.linear + self.condensed * way.shift).tolist()
        return History(self.interval, rows, self.condensed, total)

    def add(self, other: History) -> None:
        """Add what another stream has condensed, so that it does not look like drift."""
        if other.total:
            before = np.array(self.total) if self.total else np.zeros(len(other.total))
            self.condensed += other.condensed
            self.total = (before + np.array(other.total)).tolist()


FARTHEST = 1e15  # standard deviations: beyond, squares lose their meaning


def check_reach(records: Floats) -> None:
    """Raise if records are not finite, or so far away that distances lose their meaning."""
    refuse(reach_problems(records))


def reach_problems(records: Floats) -> list[Problem]:
    far = np.logical_not((np.abs(records) < FARTHEST).all(axis=1))
    reason = "the record lies more than 1e15 standard deviations from the initial ones"
    return [Problem(far, reason, "check the units, or give the scales")] if far.any() else []


class StreamState:
    """Groups, waiting records and history of one stream (or of one class of it).

    Records come in natural ``units``, as they are held back; groups are in standard ones.
    """

    def __init__(
        self,
        dimensions: int,
        *,
        strict: bool = False,
        people: GroupMembers | None = None,
        held: HeldBack | None = None,
        label: Any = None,
        units: Scaling | None = None,
    ) -> None:
        self.strict = strict
        self.people = people  # where people have several records
        self.groups = StreamGroups(dimensions)
        self.held = HeldBack(each=self._each) if held is None else held  # of all classes
        self.label = label
        self.units = Scaling.standard_ones(dimensions) if units is None else units
        self.history = History()
        self.published: Published | None = None
        self.seen = 0
        self._engine: Engine | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_engine": None}  # an index is quicker built than copied

    @property
    def condensed(self) -> int:
        return int(self.groups.view().counts.sum())

    @property
    def waiting(self) -> list[Held]:
        return self.held.of(self.label)

    @property
    def _each(self) -> int:
        return 1 if self.people is None else 0

    def start(
        self, moments: GroupMoments, groups: Ints | None = None, persons: Ints | None = None
    ) -> None:
        """Begin with the groups of a static grouping: of each record, and words for its people."""
        people = None
        if self.people is not None and groups is not None and persons is not None:
            people = self.people.start(groups, persons)
        self.groups.append(moments, people)
        self.seen += int(moments.counts.sum())
        self._engine = None

    def absorb(
        self, rows: Floats, levels: Ints, numbers: Ints, persons: Ints | None = None
    ) -> None:
        """Condense records; ``numbers`` are their numbers in the whole stream.

        ``persons`` are words for their people; each record is a person of its own by default.
        """
        records = np.ascontiguousarray(self.units.standard(rows), dtype=np.float64)
        check_reach(records)
        persons = numbers if persons is None else persons
        levels = np.ascontiguousarray(levels, dtype=np.int64)
        start = 0
        while start < len(rows):
            stop = min(len(rows), start + self.history.interval - self.seen % self.history.interval)
            part = slice(start, stop)
            self._run(rows[part], records[part], levels[part], numbers[part], persons[part])
            self.seen += stop - start
            if self.seen % self.history.interval == 0:
                used = self.groups.view()
                self.history.note(self.seen, used.counts, used.means, len(self.waiting))
            start = stop

    def take_over(self, other: StreamState) -> None:
        """Add the groups and the waiting records of another stream in the same dimensions."""
        known = len(self.groups)
        families = other.groups.view().families.copy()
        families[families >= 0] += 0 if self.published is None else len(self.published)
        self.groups.append(other.groups.moments())
        self.groups.view().families[known:] = families
        if other.published is not None:
            self.published = self.published or Published.nothing(self.groups.dimensions)
            self.published.extend(other.published)
        self.history.add(other.history)
        self._engine = None
        mine, theirs = self.waiting, other.waiting
        self.held.remove(mine)
        other.held.remove(theirs)
        if waiting := [*mine, *theirs]:
            numbers = np.array([held.number for held in waiting])
            levels = np.array([held.level for held in waiting], dtype=np.int64)
            rows = np.array([held.row for held in waiting])
            self._run(rows, self.units.standard(rows), levels, numbers, numbers)
        self.seen += other.seen

    def publish(self) -> tuple[StreamGroups, Arrivals, Change]:
        """Return what the next snapshot shows, who comes with it, and what it changes."""
        self.published, arrived, change = publish(
            self.groups, self.published, self._engine_for, self.people
        )
        return self.published.shown, arrived, change

    def moved(self, way: Affine, held: HeldBack, units: Scaling) -> StreamState:
        wide = len(way.shift)
        other = StreamState(wide, strict=self.strict, held=held, label=self.label, units=units)
        other.groups = self.groups.moved(way)
        other.published = None if self.published is None else self.published.moved(way)
        other.history = self.history.moved(way)
        other.seen = self.seen
        check_reach(other.groups.view().means)
        for waiting in other.waiting:
            check_reach(units.standard(waiting.row[None, :]))
        return other

    def check(self) -> None:
        """Raise if a record is lost, counted twice, or (strict) in too small a group."""
        used = self.groups.view()
        if self.condensed + len(self.waiting) != self.seen:
            raise PrivacyError(
                f"{counted(self.seen, 'record', 'was')} seen, but {self.condensed} are condensed "
                f"and {len(self.waiting)} are waiting: the state is damaged and nothing is "
                "released"
            )
        small = int((used.people < used.levels).sum())
        if self.strict and small:
            raise PrivacyError(
                f"{counted(small, 'group', 'is')} smaller than the level of a member: nothing is "
                "released"
            )

    def _engine_for(self, groups: StreamGroups) -> Engine:
        return Engine(groups, strict=self.strict, each=self._each)

    def _run(
        self, rows: Floats, records: Floats, levels: Ints, numbers: Ints, persons: Ints
    ) -> None:
        engine = self._engine = self._engine or self._engine_for(self.groups)
        row = 0
        while row < len(records):
            need = self.held.least_need(self.label)
            wake = NOBODY if need is None else need
            if self.people is not None:
                wake = 0  # after every record: whether it is of somebody new decides about a split
            row, event, group = engine.absorb(records, levels, row, wake)
            if event is Event.WAKE:
                self._note(group, int(persons[row - 1]))
                self._wake(engine, group)
            elif event is Event.WAIT:
                told = int(levels[row]), int(numbers[row]), self.label, int(persons[row])
                self.held.records.append(Held(np.array(rows[row]), *told, {}))
                row += 1
                self._gather(engine)

    def _note(self, group: int, person: int) -> None:
        """Count somebody who joined a group, where people have several records."""
        if self.people is not None:
            arrays = self.groups.arrays
            arrays.people[group] += self.people.join(group, int(arrays.families[group]), person)

    def _wake(self, engine: Engine, group: int) -> None:
        """Let the records that wait for a group of this size join it, before it may split.

        Nobody waits whom another group could take, so this group is the nearest admissible one.
        """
        while held := self.held.pop_for(self.label, int(self.groups.arrays.people[group])):
            engine.add(group, self.units.standard(held.row), held.level)
            self._note(group, held.person)
        before = len(self.groups)
        engine.settle(group)
        if self.people is not None and len(self.groups) > before:
            self.people.split(group)

    def _gather(self, engine: Engine) -> None:
        """Form a group of waiting records once there are enough of them."""
        members = self.held.due_group(self.label)
        if members:
            self.held.remove(members)
            matrix = self.units.standard(np.array([member.row for member in members]))
            levels = np.array([member.level for member in members], dtype=np.int64)
            one = np.zeros(len(members), dtype=np.int64)
            people = None
            if self.people is not None:
                people = self.people.start(one, np.array([member.person for member in members]))
            engine.append(GroupMoments.of(matrix, one, levels), people)
            self._wake(engine, len(self.groups) - 1)
