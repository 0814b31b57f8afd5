"""A table larger than memory, condensed on one machine: readings, one nameless file, threads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import NamedTuple

import numpy as np
import polars as pl

from tulle import _progress as progress
from tulle._large.facts import (
    SAMPLE,
    CommonKeys,
    HashSample,
    Keys,
    RowSample,
    TableFacts,
    person_keys,
)
from tulle._large.plan import (
    BLOCK,
    Attacked,
    BlockPlan,
    BlockSummary,
    Deal,
    Decide,
    PartedRelease,
    Tally,
    make_plan,
    verified,
)
from tulle._large.spill import Spill
from tulle._threads import in_order
from tulle.table.schema import Role, Schema

Batches = Callable[[], Iterator[pl.DataFrame]]
Put = Callable[[int, pl.DataFrame], None]

_OVERHEAD = 300 << 20  # bytes that the libraries take before any record is read
_KEPT = 200 << 20  # that kernels, the sample and what allocators keep take besides, later on
_LEAST_ROOM = 64 << 20  # for records, however little memory there is
_LEAST_SAMPLE = 30_000
_LEAST_BLOCK = 5_000


@dataclass(frozen=True)
class Budget:
    """How much fits into memory; what is released depends on it, but not on ``threads``."""

    memory: int  # bytes, for everything
    threads: int
    block: int = BLOCK
    sample: int = SAMPLE

    @classmethod
    def of(cls, memory: int, threads: int, columns: int) -> Budget:
        """Divide the memory for a table of so many columns."""
        each = 200 + 100 * columns  # bytes of a record in a sample
        room = max(memory - _OVERHEAD, _LEAST_ROOM)
        sample = int(np.clip(room // (2 * each), _LEAST_SAMPLE, SAMPLE))
        return cls(memory, threads, BLOCK, sample)

    @property
    def buffer(self) -> int:
        """Return the bytes of records that wait to be written to the file."""
        return max(self.memory - _OVERHEAD, _LEAST_ROOM) // 4

    def block_of(self, dimensions: int) -> int:
        """Return about how many records a block has, from how many coordinates a record has."""
        return min(self.block, self.fitting(dimensions))

    def fitting(self, dimensions: int) -> int:
        """Return how many records fit into memory while their block is condensed."""
        return max(self._room // _bytes_in_block(dimensions), _LEAST_BLOCK)

    def workers(self, largest: int, dimensions: int) -> int:
        """Return how many blocks fit into memory at once, the largest with so many records."""
        each = largest * _bytes_in_block(dimensions)
        return int(np.clip(self._room // max(each, 1), 1, self.threads))

    @property
    def _room(self) -> int:
        """Return the bytes for the blocks that are being condensed."""
        return max(self.memory - _OVERHEAD - _KEPT, _LEAST_ROOM)


def _bytes_in_block(dimensions: int) -> int:
    """Return the bytes that a record takes while its block is condensed, as measured."""
    return 300 + 115 * dimensions


class Sampled(NamedTuple):
    """Rows of a table, chosen by a keyed hash of what they hold."""

    rows: pl.DataFrame
    records: int  # of the whole table
    common: Keys  # of contents that very many rows have


def sample_rows(batches: Batches, size: int, seed: tuple[int, ...]) -> Sampled:
    """Draw rows of a table, which is read once more if some are common: each of them counts."""
    sample, common = RowSample(size, seed[0]), CommonKeys()
    for frame in batches():
        common.add(sample.add(frame))
    candidates = common.candidates()
    if len(candidates) and not sample.whole:
        sample = RowSample(size, seed[0], candidates=candidates)
        for frame in batches():
            sample.add(frame)
    return Sampled(sample.rows(), sample.records, sample.common())


def condense_batches(
    batches: Batches,
    schema: Schema,
    decide: Decide,
    put: Put,
    *,
    target: str | None,
    sample: Sampled,
    budget: Budget,
    seed: tuple[int, ...],
) -> PartedRelease:
    """Condense a table that is read several times, and hand over the release block by block.

    Parameters
    ----------
    batches : callable
        Reads the table from the beginning.
    schema : Schema
        The columns with their roles, without the target.
    decide : callable
        Returns what is condensed apart, and how to group and draw (an unfitted condenser), from
        how many rows there are of each class and level.
    put : callable
        Takes the number of a block and its pseudo-records; called by several threads.
    target : str, optional
        The column of classes.
    sample : Sampled
        Rows of the table.
    seed : tuple of int
        The secret that everything random follows from.
    """
    facts, some, people = _facts(batches, schema, target, sample, budget, seed)
    plan = make_plan(schema, facts, some, people, sample.common, decide, budget.block_of, seed)
    with Spill(np.dtype(np.uint8), int(plan.firsts[-1]), budget.buffer) as spill:
        placed = _place(plan, batches, spill)
        summaries, attacked = _condense(plan, spill, budget, put)
    return verified(plan, summaries, placed, facts.records, attacked)


def _facts(
    batches: Batches,
    schema: Schema,
    target: str | None,
    sample: Sampled,
    budget: Budget,
    seed: tuple[int, ...],
) -> tuple[TableFacts, pl.DataFrame, Keys | None]:
    """Return the facts; where people have several rows, also a sample of whole people."""
    person = next(iter(schema.named(Role.PERSON)), None)
    facts, whole = TableFacts(schema, target), HashSample.of_table(budget.sample, sample.records)
    for frame in batches():
        keys = None if person is None else person_keys(frame[person], seed[1])
        facts.add(frame, keys)
        if keys is not None:
            whole.add(frame, keys)
    return (facts, sample.rows, None) if person is None else (facts, *whole.rows())


def _place(plan: BlockPlan, batches: Batches, spill: Spill) -> Tally:
    """Sort the records of the table into blocks."""
    deal, tally = Deal(plan.common), Tally()
    with progress.bar("placing records", None) as advance:
        for frame in batches():
            for number, part in plan.placed(frame, deal, tally):
                packed = pack(part)
                spill.put(
                    number, np.frombuffer(len(packed).to_bytes(8, "little") + packed, np.uint8)
                )
            advance(frame.height)
    spill.flush()  # blocks need the memory
    _give_back()
    return tally


def pack(frame: pl.DataFrame) -> bytes:
    """Return records as bytes."""
    file = BytesIO()
    frame.write_ipc_stream(file)
    return file.getvalue()


def unpack(parts: Iterable[bytes]) -> pl.DataFrame:
    """Return the records of several parts of a block."""
    return pl.concat([pl.read_ipc_stream(BytesIO(part)) for part in parts], rechunk=True)


def _parts(held: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(held):
        size = int.from_bytes(held[at : at + 8], "little")
        yield held[at + 8 : at + 8 + size]
        at += 8 + size


def _give_back() -> None:
    """Return to the system what is free: many small arrays leave holes that glibc holds on to."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _condense(
    plan: BlockPlan, spill: Spill, budget: Budget, put: Put
) -> tuple[list[BlockSummary], Attacked]:
    """Condense every block that holds a record and hand it over; keep what is attacked."""
    attacked: dict[int, Attacked] = {}

    def work(number: int) -> BlockSummary:
        frame = unpack(_parts(spill.read(np.array([number])).tobytes()))
        drawn, summary = plan.condense(frame, number)
        put(number, drawn)
        if number in plan.attacked:
            attacked[number] = Attacked(frame, drawn)
        del frame, drawn
        _give_back()
        return summary

    numbers = [number for number in range(int(plan.firsts[-1])) if spill.holds(number)]
    largest = int((plan.units.records / plan.blocks).max())
    threads = budget.workers(largest, len(plan.encoder.scales_))
    found = []
    with progress.bar("condensing blocks", len(numbers)) as advance:
        for summary in in_order(work, numbers, threads):
            found.append(summary)
            advance(1)
    return found, together(attacked)


def together(attacked: dict[int, Attacked]) -> Attacked:
    """Return what is attacked of all blocks as one."""
    members, released = zip(*(attacked[number] for number in sorted(attacked)))
    return Attacked(pl.concat(members), pl.concat(released))
