"""What is decided about a table before its records move: the same wherever the work is done.

A plan follows from the facts and the sample of a table. It encodes records, says which leaf of
space each belongs to, joins leaves into cells and condenses one; an engine only moves bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from sklearn.base import clone

from tulle._large.cell import CellSummary, condense_cell
from tulle._large.facts import Keys, TableFacts, person_keys
from tulle._large.layout import Layout, Records, fit_layout, row_order, standardised
from tulle._types import Floats, Ints
from tulle.condense._cuts import Cuts, grow_cuts
from tulle.condense._levels import check_levels
from tulle.condense.condenser import Condenser
from tulle.errors import DataError
from tulle.table.schema import Role, Schema

CELL = 100_000  # records of a cell: smaller ones lose more, larger ones gain nothing
_MOST = 5_000_000  # records of a cell, which is condensed in memory


@dataclass(frozen=True)
class ReleasedClasses:
    """The classes that are released, each condensed on its own; one without a name if none."""

    name: str | None
    labels: pl.Series
    records: Ints  # of each class

    def units(self, frame: pl.DataFrame) -> Ints:
        """Return the class of each record, -1 where it is withheld."""
        if self.name is None:
            return np.zeros(frame.height, dtype=np.int64)
        places = pl.Series(np.arange(len(self.labels)))
        found = frame[self.name].replace_strict(
            self.labels, places, default=-1, return_dtype=pl.Int64
        )
        return found.to_numpy()


Decide = Callable[[pl.DataFrame], tuple[ReleasedClasses, Condenser]]


@dataclass
class Leaves:
    """How many records and people each leaf has, the highest level in it, and sums of all."""

    records: Ints
    people: Ints
    levels: Ints
    sums: Floats  # (2, d): of the standardised records, and of their absolute values

    @classmethod
    def empty(cls, leaves: int, dimensions: int) -> Leaves:
        records, people, levels = np.zeros((3, leaves), dtype=np.int64)
        return cls(records, people, levels, np.zeros((2, dimensions)))

    def merge(self, other: Leaves) -> None:
        """Take in what was counted elsewhere."""
        self.records += other.records
        self.people += other.people
        np.maximum(self.levels, other.levels, out=self.levels)
        self.sums += other.sums


@dataclass(frozen=True)
class Cell:
    """One cell: which leaves it consists of, and how many records are drawn for it."""

    number: int
    unit: int
    leaves: Ints
    records: int
    drawn: int
    share: float  # of all records


class JoinedLeaves(NamedTuple):
    """Leaves of one class that are condensed together."""

    unit: int
    leaves: Ints
    records: int
    people: int
    level: int  # the highest


@dataclass(frozen=True)
class CellPlan:
    """How every record of a table is encoded, placed and condensed; it holds no row."""

    condenser: Condenser  # unfitted: how to group and draw
    classes: ReleasedClasses
    person: str | None
    level: str | None
    seed: tuple[int, ...]
    layout: Layout
    cuts: list[Cuts]  # of each class

    @property
    def dimensions(self) -> int:
        """Return how many coordinates a record has."""
        return len(self.layout.encoder.scales_)

    @property
    def first_leaves(self) -> Ints:
        """Return the first leaf of each class, and how many leaves there are."""
        return np.cumsum([0, *(tree.leaves for tree in self.cuts)])

    def no_leaves(self) -> Leaves:
        """Return counts of nothing yet."""
        return Leaves.empty(int(self.first_leaves[-1]), self.dimensions)

    def records(self, frame: pl.DataFrame) -> Records:
        """Return the encoded records of a batch, without those of withheld classes."""
        people = None if self.person is None else person_keys(frame[self.person], self.seed[1])
        records = _records(frame, self.layout, self.classes, self.condenser.k, self.level, people)
        return records[records["unit"] >= 0]

    def placed(self, records: Records, counted: Leaves) -> tuple[Records, Ints]:
        """Return records with their leaves, and count them.

        People with several rows have one leaf: all of their records must be here.
        """
        if self.person is not None:  # sums over a person's rows have one order
            records = records[row_order(records, self.seed[0])]
        points = standardised(records, self.layout)
        leaves, people = self._locate(records, points)
        size = len(counted.records)
        counted.records += np.bincount(leaves, minlength=size)
        counted.people += np.bincount(people, minlength=size)
        np.maximum.at(counted.levels, leaves, records["level"])
        counted.sums += [points.sum(axis=0), np.abs(points).sum(axis=0)]
        return records, leaves

    def _locate(self, records: Records, points: Floats) -> tuple[Ints, Ints]:
        """Return the leaf of each record, and of each person."""
        if self.person is None:
            leaves = self._leaves_of(points, records["unit"])
            return leaves, leaves
        first, place = _people_of(records)
        people = self._leaves_of(_person_means(points, place), records["unit"][first])
        return people[place], people

    def _leaves_of(self, points: Floats, units: Ints) -> Ints:
        leaves = np.empty(len(points), dtype=np.int64)
        for unit, (tree, first) in enumerate(zip(self.cuts, self.first_leaves)):
            rows = units == unit
            leaves[rows] = first + tree.locate(points[rows])
        return leaves

    def joined(self, counted: Leaves) -> list[JoinedLeaves]:
        """Join leaves until they can hold their own levels, class by class."""
        found = []
        for unit, (tree, first) in enumerate(zip(self.cuts, self.first_leaves)):
            some = slice(first, first + tree.leaves)
            owner = tree.joined(counted.people[some], counted.levels[some])
            for cell in range(owner.max() + 1):
                leaves = first + np.flatnonzero(owner == cell)
                records, people = counted.records[leaves].sum(), counted.people[leaves].sum()
                level = counted.levels[leaves].max()
                found.append(JoinedLeaves(unit, leaves, int(records), int(people), int(level)))
        return [one for one in found if one.records]

    def cells(self, found: list[JoinedLeaves]) -> list[Cell]:
        """Return the cells, with how many records are drawn for each."""
        sizes = np.array([one.records for one in found])
        if sizes.max(initial=0) > _MOST:
            raise DataError(
                f"{sizes.max():,} records are too much alike, or ask for groups too large, to be "
                f"condensed apart, and at most {_MOST:,} can be together: leave out columns with "
                "few different values, or condense distinct records with lower levels"
            )
        # as a whole release draws its groups: how many of the records of a cell there are is not
        # told to the last one
        rng = np.random.default_rng([*self.seed, 2**32 + 1])
        shares = sizes / sizes.sum()
        exact = self.condenser.exact_totals
        drawn = (sizes if exact else rng.multinomial(sizes.sum(), shares)).tolist()
        return [
            Cell(number, one.unit, one.leaves, one.records, drawn[number], float(shares[number]))
            for number, one in enumerate(found)
        ]

    def condense(self, records: Records, cell: Cell) -> tuple[pl.DataFrame, CellSummary]:
        """Return the pseudo-records of a cell, with their class, and its summary."""
        part: Condenser = clone(self.condenser)
        if part.time_budget is not None:
            part.set_params(time_budget=part.time_budget * cell.share)
        drawn, summary = condense_cell(
            records,
            self.layout,
            part,
            self.seed,
            cell.number,
            size=cell.drawn,
            persons=self.person is not None,
            levelled=self.level is not None,
        )
        if self.classes.name is not None:
            label = self.classes.labels[cell.unit : cell.unit + 1].alias(self.classes.name)
            drawn = drawn.with_columns(label.new_from_index(0, drawn.height))
        return drawn, summary


def make_plan(
    schema: Schema,
    facts: TableFacts,
    sample: pl.DataFrame,
    people: Keys | None,
    decide: Decide,
    cell: Callable[[int], int],
    seed: tuple[int, ...],
) -> CellPlan:
    """Decide how to condense a table, from its facts and a sample of its rows.

    Parameters
    ----------
    schema : Schema
        The columns with their roles, without the target.
    facts : TableFacts
    sample : polars.DataFrame
        Rows chosen at random; of whole people where these have several rows.
    people : ndarray of uint64, optional
        The keys of the sample's people, where these have several rows.
    decide : callable
        Returns which classes are released, and how to group and draw (an unfitted condenser), from
        how many rows there are of each class and level.
    cell : callable
        Returns about how many records a cell has, from how many coordinates a record has.
    seed : tuple of int
        The secret that everything random follows from.
    """
    person, level = (next(iter(schema.named(role)), None) for role in (Role.PERSON, Role.LEVEL))
    classes, condenser = decide(facts.units())
    highest = condenser.k if level is None else _highest(facts, level)
    rng = np.random.default_rng([*seed, 2**32])
    exact = condenser.exact_totals
    layout = fit_layout(schema, facts, sample, people, highest, rng, exact=exact)
    wanted = cell(len(layout.encoder.scales_))
    sample, people = sample[: 2 * wanted], None if people is None else people[: 2 * wanted]
    records = _records(sample, layout, classes, condenser.k, level, people)
    points, least = standardised(records, layout), 4 * int(records["level"].max(initial=1))
    if people is not None:  # people are placed by their means, which lie closer to each other
        place = _people_of(records)[1]
        points = _person_means(points, place)[place]
    cuts = [
        grow_cuts(points[records["unit"] == unit], int(count), wanted, least)
        for unit, count in enumerate(classes.records.tolist())
    ]
    return CellPlan(condenser, classes, person, level, seed, layout, cuts)


def _people_of(records: Records) -> tuple[Ints, Ints]:
    """Return a record of each person of each class, and the number of every record's person."""
    order = np.lexsort((records["unit"], records["person"]))
    person, unit = records["person"][order], records["unit"][order]
    new = np.r_[True, (person[1:] != person[:-1]) | (unit[1:] != unit[:-1])][: len(order)]
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(new) - 1
    return order[new], place


def _person_means(points: Floats, place: Ints) -> Floats:
    """Return the mean of each person's records."""
    sums = [np.bincount(place, weights=column) for column in points.T]
    return np.stack(sums, axis=1) / np.bincount(place)[:, None]


def _highest(facts: TableFacts, level: str) -> int:
    """Return the highest level that the table can have."""
    levels = check_levels(facts.units()[level], facts.units().height)
    return int(levels[levels <= facts.records].max(initial=1))


def _records(
    frame: pl.DataFrame,
    layout: Layout,
    classes: ReleasedClasses,
    k: int,
    level: str | None,
    people: Keys | None,
) -> Records:
    levels = check_levels(k if level is None else frame[level], frame.height)
    return layout.records(frame, classes.units(frame), levels, people)
