"""A table larger than memory, condensed on one machine: readings, one nameless file, threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from math import ceil
from typing import TypeVar

import numpy as np
import polars as pl
from sklearn.base import clone

from tulle import _progress as progress
from tulle._large.cell import CellSummary, condense_cell
from tulle._large.cuts import Cuts, grow_cuts
from tulle._large.facts import SAMPLE, HashSample, Keys, TableFacts, mixed, person_keys
from tulle._large.layout import Layout, Records, fit_layout, standardised
from tulle._large.spill import Spill
from tulle._types import Floats, Ints
from tulle.condense._levels import LevelSummary, check_levels, join_summaries
from tulle.condense._notes import privacy_notes, table_notes
from tulle.condense.condenser import Condenser
from tulle.errors import DataError, PrivacyError
from tulle.table._encoder import TableEncoder
from tulle.table.schema import Role, Schema

CELL = 100_000  # records of a cell: smaller ones lose more, larger ones gain nothing
_LEAST_CELL = 30_000
Batches = Callable[[], Iterator[pl.DataFrame]]
Put = Callable[[int, pl.DataFrame], None]

Item = TypeVar("Item")
Result = TypeVar("Result")

_OVERHEAD = 300 << 20  # bytes that the libraries take before any record is read


@dataclass(frozen=True)
class Budget:
    """How much fits into memory; what is released depends on it, but not on ``threads``."""

    memory: int  # bytes, for everything
    threads: int
    cell: int = CELL
    sample: int = SAMPLE

    @classmethod
    def of(cls, memory: int, threads: int, columns: int) -> Budget:
        """Divide the memory for a table of so many columns."""
        room = max(memory - _OVERHEAD, 64 << 20)
        each = 200 + 100 * columns  # bytes of a record in a sample or in a cell
        cell = int(np.clip(room // (3 * each), _LEAST_CELL, CELL))
        sample = int(np.clip(room // (2 * each), _LEAST_CELL, SAMPLE))
        return cls(memory, threads, cell, sample)

    @property
    def buffer(self) -> int:
        """Return the bytes of records that wait to be written to the file."""
        return max(self.memory - _OVERHEAD, 64 << 20) // 4

    def workers(self, largest: int, dimensions: int) -> int:
        """Return how many cells fit into memory at once, the largest with so many records."""
        each = largest * (200 + 100 * dimensions + dimensions**2)
        return int(np.clip(2 * self.buffer // max(each, 1), 1, self.threads))


@dataclass(frozen=True)
class Classes:
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


def sample_rows(
    batches: Iterable[pl.DataFrame], size: int, seed: tuple[int, ...]
) -> tuple[pl.DataFrame, int]:
    """Return rows of a table, chosen by a keyed hash of their number, and how many there are."""
    sample, records = HashSample(size), 0
    for frame in batches:
        numbers = np.arange(records, records + frame.height, dtype=np.uint64)
        sample.add(frame, mixed(numbers, seed[0]))
        records += frame.height
    return sample.rows()[0], records


@dataclass(frozen=True)
class Outcome:
    """What is known of a release of many cells, verified."""

    cells: list[CellSummary]
    layout: Layout
    records: int
    classes: Classes
    loss: float  # 100 SSQ / SST
    condenser: Condenser  # unfitted: how it was made

    @property
    def released(self) -> int:
        """Return how many records were released."""
        return sum(cell.released for cell in self.cells)

    @property
    def sizes(self) -> Ints:
        """Return how many groups there are of each size."""
        sizes = np.zeros(max(len(cell.sizes) for cell in self.cells), dtype=np.int64)
        for cell in self.cells:
            sizes[: len(cell.sizes)] += cell.sizes
        return sizes

    @property
    def level_summary(self) -> list[LevelSummary]:
        """Return, for each level, its records and the fewest people in a group with one."""
        return join_summaries(*(cell.levels for cell in self.cells))

    @property
    def notes(self) -> list[str]:
        """Return what a reader of the release should know."""
        return privacy_notes(self) + table_notes(self)

    @property
    def k(self) -> int:
        return self.condenser.k

    # as the notes of a condenser know them

    @property
    def counts_(self) -> Ints:
        return np.zeros(int(self.sizes.sum()), dtype=np.int8)

    @property
    def levels_(self) -> Ints:
        return np.array([cell.highest_level for cell in self.cells])

    @property
    def n_degenerate_(self) -> int:
        return sum(cell.degenerate for cell in self.cells)

    @property
    def n_verbatim_(self) -> int:
        return sum(cell.verbatim for cell in self.cells)

    @property
    def n_singular_(self) -> int:
        return sum(cell.singular for cell in self.cells)

    @property
    def n_suppressed_(self) -> int:
        withheld = self.records - int(self.classes.records.sum())
        return withheld + sum(cell.suppressed for cell in self.cells)

    @property
    def _encoder(self) -> TableEncoder:
        return self.layout.encoder

    @property
    def _keeps_shape(self) -> bool:
        return self.condenser._keeps_shape


def condense_batches(
    batches: Batches,
    schema: Schema,
    decide: Callable[[pl.DataFrame], tuple[Classes, Condenser]],
    put: Put,
    *,
    target: str | None,
    sample: pl.DataFrame,
    budget: Budget,
    seed: tuple[int, ...],
) -> Outcome:
    """Condense a table that is read several times, and hand over the release cell by cell.

    Parameters
    ----------
    batches : callable
        Reads the table from the beginning.
    schema : Schema
        The columns with their roles, without the target.
    decide : callable
        Returns which classes are released, and how to group and draw (an unfitted condenser), from
        how many rows there are of each class and level.
    put : callable
        Takes the number of a cell and its pseudo-records; called by several threads.
    target : str, optional
        The column of classes.
    sample : polars.DataFrame
        Rows of the table, chosen at random.
    seed : tuple of int
        The secret that everything random follows from.
    """
    person, level = (next(iter(schema.named(role)), None) for role in (Role.PERSON, Role.LEVEL))
    facts, sample, people = _facts(batches, schema, target, sample, person, budget, seed)
    classes, condenser = decide(facts.units())
    run = _Run(condenser, classes, person, level, budget, seed)
    layout = fit_layout(
        schema, facts, sample, people, run.highest(facts), np.random.default_rng([*seed, 2**32])
    )
    cuts = run.cuts(layout, sample, people)
    with ExitStack() as files:
        spill, leaves, sums = run.place(batches, layout, cuts, files)
        summaries = run.condense(spill, leaves, layout, cuts, put)
    return _verified(summaries, leaves, layout, facts.records, run, sums)


def _facts(
    batches: Batches,
    schema: Schema,
    target: str | None,
    sample: pl.DataFrame,
    person: str | None,
    budget: Budget,
    seed: tuple[int, ...],
) -> tuple[TableFacts, pl.DataFrame, Keys | None]:
    """Return the facts; where people have several rows, also a sample of whole people."""
    facts, whole = TableFacts(schema, target), HashSample(budget.sample)
    for frame in batches():
        keys = None if person is None else person_keys(frame[person], seed[1])
        facts.add(frame, keys)
        if keys is not None:
            whole.add(frame, keys)
    if person is None:
        return facts, sample, None
    return facts, *whole.rows()


@dataclass
class _Leaves:
    """How many records and people each leaf has, and the highest level in it."""

    records: Ints
    people: Ints
    levels: Ints

    @classmethod
    def empty(cls, leaves: int) -> _Leaves:
        return cls(*np.zeros((3, leaves), dtype=np.int64))

    def add(self, leaves: Ints, levels: Ints, people: Ints | None) -> None:
        """Count the records of a batch; ``people`` are the leaves of its people."""
        inside = leaves >= 0
        size = len(self.records)
        self.records += np.bincount(leaves[inside], minlength=size)
        np.maximum.at(self.levels, leaves[inside], levels[inside])
        whole = leaves if people is None else people
        self.people += np.bincount(whole[whole >= 0], minlength=size)


@dataclass(frozen=True)
class _Run:
    """What the steps of one run share."""

    condenser: Condenser
    classes: Classes
    person: str | None
    level: str | None
    budget: Budget
    seed: tuple[int, ...]

    def highest(self, facts: TableFacts) -> int:
        """Return the highest level that the table can have."""
        if self.level is None:
            return self.condenser.k
        levels = check_levels(facts.units()[self.level], facts.units().height)
        possible = levels[levels <= facts.records]
        return int(possible.max(initial=1))

    def cuts(self, layout: Layout, sample: pl.DataFrame, people: Keys | None) -> list[Cuts]:
        """Cut the space of each class into leaves."""
        records = self._records(sample, layout, people)
        points = standardised(records, layout)
        return [
            grow_cuts(points[records["unit"] == unit], int(count), self.budget.cell, least)
            for unit, count in enumerate(self.classes.records.tolist())
            for least in [4 * int(records["level"].max(initial=1))]
        ]

    def _records(self, frame: pl.DataFrame, layout: Layout, people: Keys | None) -> Records:
        levels = self.condenser.k if self.level is None else frame[self.level]
        return layout.records(
            frame, self.classes.units(frame), check_levels(levels, frame.height), people
        )

    def place(
        self, batches: Batches, layout: Layout, cuts: list[Cuts], files: ExitStack
    ) -> tuple[Spill, _Leaves, Floats]:
        """Sort the records of the table into leaves; whole people go to one leaf."""

        def encoded(frame: pl.DataFrame) -> Records:
            keys = None if self.person is None else person_keys(frame[self.person], self.seed[1])
            records = self._records(frame, layout, keys)
            return records[records["unit"] >= 0]

        arriving = in_order(encoded, (f for f in batches() if f.height), self.budget.threads)
        if self.person is not None:
            arriving = self._by_person(arriving, layout, files)
        counted = _Leaves.empty(sum(tree.leaves for tree in cuts))
        spill = files.enter_context(Spill(layout.dtype, len(counted.records), self.budget.buffer))
        sums = np.zeros((2, len(layout.encoder.scales_)))
        with progress.bar("placing records", None) as advance:
            for records in arriving:
                points = standardised(records, layout)
                sums += [points.sum(axis=0), np.abs(points).sum(axis=0)]
                leaves, people = self._locate(records, points, cuts)
                counted.add(leaves, records["level"], people)
                spill.add(records, leaves)
                advance(len(records))
        return spill, counted, sums

    def _by_person(
        self, arriving: Iterator[Records], layout: Layout, files: ExitStack
    ) -> Iterator[Records]:
        """Yield the same records, those of one person together."""
        size = int(self.classes.records.sum()) * layout.dtype.itemsize
        buckets = int(np.clip(ceil(size / self.budget.buffer), 1, 4096))
        with Spill(layout.dtype, buckets, self.budget.buffer) as spill:
            for records in arriving:
                spill.add(records, (records["person"] % np.uint64(buckets)).astype(np.int64))
            for bucket in range(buckets):
                yield spill.read(np.array([bucket]))

    def _locate(
        self, records: Records, points: Floats, cuts: list[Cuts]
    ) -> tuple[Ints, Ints | None]:
        """Return the leaf of each record, and of each person if people have several rows."""
        first = np.cumsum([0, *(tree.leaves for tree in cuts)])
        if self.person is None:
            return _leaves_of(points, records["unit"], cuts, first), None
        pairs = np.stack([records["person"].view(np.int64), records["unit"]], axis=1)
        owners, place, rows = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
        place = place.reshape(-1)
        sums = [np.bincount(place, weights=column) for column in points.T]
        means = np.stack(sums, axis=1) / rows[:, None]
        people = _leaves_of(means, owners[:, 1], cuts, first)
        return people[place], people

    def condense(
        self, spill: Spill, leaves: _Leaves, layout: Layout, cuts: list[Cuts], put: Put
    ) -> list[CellSummary]:
        """Condense every cell and hand it over."""
        cells = _cells(leaves, cuts)
        sizes = [int(leaves.records[cell.leaves].sum()) for cell in cells]
        total = sum(sizes)
        # as a whole release draws its groups: how many of the records of a cell there are is not
        # told to the last one
        rng = np.random.default_rng([*self.seed, 2**32 + 1])
        drawn_sizes = rng.multinomial(total, np.array(sizes) / total).tolist()

        def work(number: int) -> CellSummary:
            cell = cells[number]
            part: Condenser = clone(self.condenser)
            if part.time_budget is not None:
                part.set_params(time_budget=part.time_budget * sizes[number] / total)
            drawn, summary = condense_cell(
                spill.read(cell.leaves),
                layout,
                part,
                self.seed,
                number,
                size=drawn_sizes[number],
                persons=self.person is not None,
                levelled=self.level is not None,
            )
            if self.classes.name is not None:
                label = self.classes.labels[cell.unit : cell.unit + 1].alias(self.classes.name)
                drawn = drawn.with_columns(label.new_from_index(0, drawn.height))
            put(number, drawn)
            return summary

        threads = self.budget.workers(max(sizes), len(layout.encoder.scales_))
        with progress.bar("condensing cells", len(cells)) as advance:
            found = []
            for summary in in_order(work, range(len(cells)), threads):
                found.append(summary)
                advance(1)
        return found


@dataclass(frozen=True)
class _Cell:
    unit: int
    leaves: Ints


def _cells(leaves: _Leaves, cuts: list[Cuts]) -> list[_Cell]:
    """Join leaves into cells that can hold their own levels, class by class."""
    cells, first = [], 0
    for unit, tree in enumerate(cuts):
        some = slice(first, first + tree.leaves)
        owner = tree.joined(leaves.people[some], leaves.levels[some])
        for number in range(int(owner.max()) + 1):
            of_cell = first + np.flatnonzero(owner == number)
            if leaves.records[of_cell].sum():
                cells.append(_Cell(unit, of_cell))
        first += tree.leaves
    return cells


def _leaves_of(points: Floats, units: Ints, cuts: list[Cuts], first: Ints) -> Ints:
    leaves = np.empty(len(points), dtype=np.int64)
    for unit, tree in enumerate(cuts):
        rows = units == unit
        leaves[rows] = first[unit] + tree.locate(points[rows])
    return leaves


def _verified(
    cells: list[CellSummary],
    leaves: _Leaves,
    layout: Layout,
    records: int,
    run: _Run,
    sums: Floats,
) -> Outcome:
    """Raise unless all cells together keep what was promised and hold every record once."""
    if [cell.cell for cell in cells] != list(range(len(cells))):
        raise PrivacyError("a cell is missing or came twice: nothing is released")
    if not all(cell.valid for cell in cells):
        raise PrivacyError("a group is smaller than the level of a record: nothing is released")
    classes = run.classes
    held = sum(cell.records for cell in cells)
    if held != int(classes.records.sum()) or held != int(leaves.records.sum()):
        raise DataError(
            f"the cells hold {held} records, but the table has {int(classes.records.sum())}: did "
            "the table change while it was read?"
        )
    first = np.sum([cell.first_sums for cell in cells], axis=0)
    if (
        not any(cell.suppressed for cell in cells)
        and (np.abs(first - sums[0]) > 1e-9 * (1 + sums[1])).any()
    ):
        raise PrivacyError("the groups' sums are not those of the table: nothing is released")
    squares = np.sum([cell.squares for cell in cells], axis=0)
    kept = sum(cell.records - cell.suppressed for cell in cells)
    total = float((squares - first**2 / kept).sum())
    within = float(sum(cell.within.sum() for cell in cells))
    loss = 100.0 * within / total if total > 0 else 0.0
    return Outcome(cells, layout, records, classes, loss, run.condenser)


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """Yield the results of work done by several threads, in the order of the items.

    No more than ``threads`` results wait: memory stays bounded.
    """
    if threads == 1:
        yield from map(work, items)
        return
    pending: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) >= threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
