"""A table larger than memory, condensed on one machine: readings, one nameless file, threads."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle import _progress as progress
from tulle._large.facts import SAMPLE, Learnt
from tulle._large.plan import BLOCK, BlockPlan, Deal, Finished, Tally, Write
from tulle._threads import in_order
from tulle._types import Ints
from tulle.errors import DataError

Batches = Callable[[], Iterator[pl.DataFrame]]

_OVERHEAD = 300 << 20  # bytes that the libraries take before any record is read
_KEPT = 200 << 20  # that kernels, the sample and what allocators keep take besides, later on
_LEAST_ROOM = 64 << 20  # for records, however little memory there is
_LEAST_SAMPLE = 30_000
_LEAST_BLOCK = 5_000
Records = NDArray[Any]  # of the type that a spill has


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
        return max(self.memory - _OVERHEAD, _LEAST_ROOM) // 4

    def block_of(self, dimensions: int) -> int:
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
        return max(self.memory - _OVERHEAD - _KEPT, _LEAST_ROOM)


def _bytes_in_block(dimensions: int) -> int:
    """Return the bytes that a record takes while its block is condensed, as measured."""
    return 300 + 115 * dimensions


@dataclass(frozen=True)
class Machine:
    """One machine: a table that is read in batches, within a budget of memory."""

    batches: Batches  # reads the table from the beginning
    budget: Budget

    @property
    def sample(self) -> int:
        return self.budget.sample

    def block_of(self, dimensions: int) -> int:
        return self.budget.block_of(dimensions)

    def read(self, reading: Learnt) -> Learnt:
        """Show all rows to a reading."""
        for frame in self.batches():
            reading.add(frame)
        return reading

    def condense(self, plan: BlockPlan, write: Write) -> tuple[Tally, list[Finished]]:
        """Sort the records into blocks, and condense every block that holds one."""
        budget = self.budget
        with Spill(np.dtype(np.uint8), int(plan.firsts[-1]), budget.buffer) as spill:
            placed = self._place(plan, spill)

            def work(number: int) -> Finished:
                frame = unpack(_parts(spill.read(np.array([number])).tobytes()))
                done = plan.finish(frame, number, write)
                del frame
                _give_back()
                return done

            numbers = [number for number in range(int(plan.firsts[-1])) if spill.holds(number)]
            largest = int((plan.units.records / plan.blocks).max())
            threads = budget.workers(largest, len(plan.encoder.scales_))
            finished = []
            with progress.bar("condensing blocks", len(numbers)) as advance:
                for done in in_order(work, numbers, threads):
                    finished.append(done)
                    advance(1)
        return placed, finished

    def _place(self, plan: BlockPlan, spill: Spill) -> Tally:
        """Sort the records of the table into blocks."""
        deal, tally = Deal(plan.common), Tally()
        with progress.bar("placing records", None) as advance:
            for frame in self.batches():
                for number, part in plan.placed(frame, deal, tally):
                    packed = pack(part)
                    packed = len(packed).to_bytes(8, "little") + packed
                    spill.put(number, np.frombuffer(packed, np.uint8))
                advance(frame.height)
        spill.flush()  # blocks need the memory
        _give_back()
        return tally


def pack(frame: pl.DataFrame) -> bytes:
    file = BytesIO()
    frame.write_ipc_stream(file)
    return file.getvalue()


def unpack(parts: Iterable[bytes]) -> pl.DataFrame:
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


class Spill:
    """Hold records sorted into leaves; at most ``memory`` bytes of them outside the file.

    Parameters
    ----------
    dtype : numpy dtype
        The type of a record.
    leaves : int
        How many leaves there are.
    memory : int
        Bytes.
    folder : str, optional
        Where the file is; by default ``TMPDIR``, else the system's folder for large temporary
        files. Only its owner can read it, it has no name, and it is gone with the process.
    """

    def __init__(
        self, dtype: np.dtype[Any], leaves: int, memory: int, folder: str | None = None
    ) -> None:
        self._file = _nameless(folder)
        self._dtype = dtype
        self._memory = memory
        self._held: list[list[Records]] = [[] for _ in range(leaves)]
        self._blocks: list[list[tuple[int, int]]] = [[] for _ in range(leaves)]  # start, bytes
        self._bytes = 0
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, records: Records, leaves: Ints) -> None:
        """Put each record to its leaf; a negative one is left out."""
        order = np.argsort(leaves, kind="stable")
        records, leaves = records[order], leaves[order]
        found, starts = np.unique(leaves, return_index=True)
        for leaf, part in zip(found.tolist(), np.split(records, starts[1:])):
            if leaf >= 0:
                self.put(leaf, part)

    def put(self, leaf: int, records: Records) -> None:
        """Put records to one leaf."""
        self._held[leaf].append(records)
        self._bytes += records.nbytes
        if self._bytes > self._memory:
            self.flush()

    def flush(self) -> None:
        """Write what is held in memory to the file."""
        try:
            for leaf, parts in enumerate(self._held):
                for part in parts:
                    self._file.write(part.tobytes())
                written = sum(part.nbytes for part in parts)
                if written:
                    self._blocks[leaf].append((self._end, written))
                    self._end += written
            self._file.flush()
        except OSError as error:
            raise DataError(
                f"cannot write the temporary file of the table's records ({error.strerror}, after "
                f"{self._end / 1e9:.1f} GB): set TMPDIR to a folder with more room"
            ) from None
        self._held = [[] for _ in self._held]
        self._bytes = 0

    def holds(self, leaf: int) -> bool:
        return bool(self._blocks[leaf] or self._held[leaf])

    def read(self, leaves: Ints) -> Records:
        """Return the records of some leaves; several threads may do so at once."""
        places = leaves.tolist()
        records = self._records([block for leaf in places for block in self._blocks[leaf]])
        held = [part for leaf in places for part in self._held[leaf]]
        return np.concatenate([records, *held]) if held else records

    def _records(self, blocks: list[tuple[int, int]]) -> Records:
        records = np.empty(sum(size for _, size in blocks) // self._dtype.itemsize, self._dtype)
        whole: Any = records.view(np.uint8)
        view, at = memoryview(whole), 0
        for start, size in blocks:
            self._fill(view[at : at + size], start)
            at += size
        return records

    def _fill(self, view: memoryview, start: int) -> None:
        done = 0
        while done < len(view):  # one call reads 2 GB at most
            done += os.preadv(self._file.fileno(), [view[done:]], start + done)


def _nameless(folder: str | None) -> BinaryIO:
    """Return a file on disk: the folder for small temporary files is often kept in memory."""
    if folder is None and "TMPDIR" not in os.environ and os.path.isdir("/var/tmp"):
        folder = "/var/tmp"
    return cast(BinaryIO, tempfile.TemporaryFile(dir=folder))
