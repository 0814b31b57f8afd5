"""A table larger than memory, condensed on one machine: readings, one nameless file, threads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import ceil

import numpy as np
import polars as pl

from tulle import _progress as progress
from tulle._large.cell import CellSummary
from tulle._large.facts import (
    SAMPLE,
    CommonKeys,
    HashSample,
    Keys,
    RowSample,
    TableFacts,
    person_keys,
)
from tulle._large.heaps import divided
from tulle._large.layout import Records
from tulle._large.outcome import CellRelease, verified
from tulle._large.plan import CELL, Cell, CellPlan, Decide, Leaves, make_plan
from tulle._large.spill import Spill
from tulle._threads import in_order
from tulle.io._formats import BATCH_ROWS
from tulle.table.schema import Role, Schema

Batches = Callable[[], Iterator[pl.DataFrame]]
Put = Callable[[int, pl.DataFrame], None]

_OVERHEAD = 300 << 20  # bytes that the libraries take before any record is read
_KEPT = 200 << 20  # that kernels, the sample and what allocators keep take besides, later on
_LEAST_ROOM = 64 << 20  # for records, however little memory there is
_LEAST_SAMPLE = 30_000
_LEAST_CELL = 5_000


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
        each = 200 + 100 * columns  # bytes of a record in a sample
        room = max(memory - _OVERHEAD, _LEAST_ROOM)
        sample = int(np.clip(room // (2 * each), _LEAST_SAMPLE, SAMPLE))
        return cls(memory, threads, CELL, sample)

    @property
    def buffer(self) -> int:
        """Return the bytes of records that wait to be written to the file."""
        return max(self.memory - _OVERHEAD, _LEAST_ROOM) // 4

    def batch(self, record: int) -> int:
        """Return how many records of so many bytes are encoded at once by each thread."""
        return int(np.clip(self.buffer // (8 * self.threads * record), 1_000, BATCH_ROWS))

    def cell_of(self, dimensions: int) -> int:
        """Return about how many records a cell has, from how many coordinates a record has."""
        return min(self.cell, self.fitting(dimensions))

    def fitting(self, dimensions: int) -> int:
        """Return how many records fit into memory while their cell is condensed."""
        return max(self._room // _bytes_in_cell(dimensions), _LEAST_CELL)

    def workers(self, largest: int, dimensions: int) -> int:
        """Return how many cells fit into memory at once, the largest with so many records."""
        each = largest * _bytes_in_cell(dimensions)
        return int(np.clip(self._room // max(each, 1), 1, self.threads))

    @property
    def _room(self) -> int:
        """Return the bytes for the cells that are being condensed."""
        return max(self.memory - _OVERHEAD - _KEPT, _LEAST_ROOM)


def _bytes_in_cell(dimensions: int) -> int:
    """Return the bytes that a record takes while its cell is condensed, as measured."""
    return 300 + 115 * dimensions


def sample_rows(batches: Batches, size: int, seed: tuple[int, ...]) -> tuple[pl.DataFrame, int]:
    """Return rows of a table, chosen by a keyed hash of what they hold, and how many there are.

    The table is read once more if some of its rows are common: each of them counts.
    """
    sample, common = RowSample(size, seed[0]), CommonKeys()
    for frame in batches():
        common.add(sample.add(frame))
    candidates = common.candidates()
    if len(candidates) and not sample.whole:
        sample = RowSample(size, seed[0], candidates=candidates)
        for frame in batches():
            sample.add(frame)
    return sample.rows(), sample.records


def condense_batches(
    batches: Batches,
    schema: Schema,
    decide: Decide,
    put: Put,
    *,
    target: str | None,
    sample: pl.DataFrame,
    records: int,
    budget: Budget,
    seed: tuple[int, ...],
) -> CellRelease:
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
    records : int
        How many rows the table has.
    seed : tuple of int
        The secret that everything random follows from.
    """
    facts, some, people = _facts(batches, schema, target, sample, records, budget, seed)
    plan = make_plan(schema, facts, some, people, decide, budget.cell_of, seed)
    with ExitStack() as files:
        spill, leaves = _place(plan, batches, budget, files)
        most = budget.fitting(plan.dimensions)
        cells = plan.cells(divided(plan, plan.joined(leaves), spill, most))
        summaries = _condense(plan, cells, spill, budget, put)
    return verified(summaries, plan, leaves, facts.records)


def _facts(
    batches: Batches,
    schema: Schema,
    target: str | None,
    sample: pl.DataFrame,
    records: int,
    budget: Budget,
    seed: tuple[int, ...],
) -> tuple[TableFacts, pl.DataFrame, Keys | None]:
    """Return the facts; where people have several rows, also a sample of whole people."""
    person = next(iter(schema.named(Role.PERSON)), None)
    facts, whole = TableFacts(schema, target), HashSample.of_table(budget.sample, records)
    for frame in batches():
        keys = None if person is None else person_keys(frame[person], seed[1])
        facts.add(frame, keys)
        if keys is not None:
            whole.add(frame, keys)
    if person is None:
        return facts, sample, None
    return facts, *whole.rows()


def _place(
    plan: CellPlan, batches: Batches, budget: Budget, files: ExitStack
) -> tuple[Spill, Leaves]:
    """Sort the records of the table into leaves; whole people go to one leaf."""
    rows = budget.batch(plan.layout.dtype.itemsize)
    slices = (part for frame in batches() for part in frame.iter_slices(rows))
    arriving = in_order(plan.records, slices, budget.threads)
    if plan.person is not None:
        arriving = _by_person(plan, arriving, budget)
    counted = plan.no_leaves()
    size = len(counted.records)
    spill = files.enter_context(Spill(plan.layout.dtype, size, budget.buffer))
    with progress.bar("placing records", None) as advance:
        for records in arriving:
            spill.add(*plan.placed(records, counted))
            advance(len(records))
    spill.flush()  # cells need the memory
    _give_back()
    return spill, counted


def _give_back() -> None:
    """Return to the system what is free: many small arrays leave holes that glibc holds on to."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _by_person(plan: CellPlan, arriving: Iterator[Records], budget: Budget) -> Iterator[Records]:
    """Yield the same records, those of one person together."""
    size = int(plan.classes.records.sum()) * plan.layout.dtype.itemsize
    buckets = int(np.clip(ceil(size / (budget.buffer // 4)), 1, 4096))
    with Spill(plan.layout.dtype, buckets, budget.buffer) as spill:
        for records in arriving:
            spill.add(records, (records["person"] % np.uint64(buckets)).astype(np.int64))
        spill.flush()
        for bucket in range(buckets):
            yield spill.read(np.array([bucket]))


def _condense(
    plan: CellPlan, cells: list[Cell], spill: Spill, budget: Budget, put: Put
) -> list[CellSummary]:
    """Condense every cell and hand it over."""

    def work(cell: Cell) -> CellSummary:
        drawn, summary = plan.condense(spill.read(cell.leaves), cell)
        put(cell.number, drawn)
        del drawn
        _give_back()
        return summary

    threads = budget.workers(max(cell.records for cell in cells), plan.dimensions)
    with progress.bar("condensing cells", len(cells)) as advance:
        found = []
        for summary in in_order(work, cells, threads):
            found.append(summary)
            advance(1)
    return found
