"""How large a table is, and rows of one that memory does not hold."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import polars as pl

from tulle._commands._columns import column_of
from tulle._commands._condensing import Condensing
from tulle._large.facts import SAMPLE, Apart, HashSample, person_keys, sample_rows
from tulle._random import as_generator
from tulle._types import FilePath
from tulle.errors import DataError, ParameterError
from tulle.io._formats import Format, existing_file, format_of, is_compressed, parts_of, readable_as
from tulle.io.read import open_table, read_table
from tulle.table.schema import Column, Role

if TYPE_CHECKING:
    from tulle._large.plan import BlockEngine

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt])(i?)b?\s*", re.IGNORECASE)
_EACH = 120  # bytes that a number of a table takes while it is condensed in memory
_WORD = 8  # times as many that a word takes: each of its column's words is a coordinate
_PER_BYTE = {Format.CSV: 30, Format.NDJSON: 12}  # ... and a byte of text
_LIBRARIES = 300_000_000  # bytes that are taken before anything is read
_PACKED = 4  # times as large as it is packed
_LEAST = 100_000_000
_REPEATED = 1.02  # rows a value from which what looks unique in a sample is not
_VALUES = 20_000  # looked at for that


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``500MB``, ``1.5 GB`` or ``2GiB``.

    >>> parse_size("500MB"), parse_size("1.5 GB"), parse_size("2GiB")
    (500000000, 1500000000, 2147483648)
    """
    match = _SIZE.fullmatch(str(text))
    if match is None:
        raise ParameterError(
            "--memory must be a size with its unit, such as 500MB or 2GB", parameter="memory"
        )
    unit = 1024 if match[3] else 1000
    size = int(float(match[1]) * unit ** ("kmgt".index(match[2].lower()) + 1))
    if size < _LEAST:
        raise ParameterError(
            "--memory must be at least 100MB: the libraries alone take more", parameter="memory"
        )
    return size


def is_large(source: FilePath, options: Condensing) -> bool:
    """Return whether a table should not be read into memory whole, by an estimate of its size."""
    with options.naming():
        given = None if options.memory is None else parse_size(options.memory)
    if format_of(source) is Format.SQL:
        return given is not None
    room = half_of_memory() if given is None else max(given - _LIBRARIES, _LEAST)
    return needed(source) > room


class Looked(NamedTuple):
    """A table to look at, or rows of it where memory does not hold it."""

    table: pl.DataFrame
    records: int  # of the whole table
    notes: list[str]  # which say so

    @property
    def sampled(self) -> bool:
        return self.table.height < self.records


def look_at(source: FilePath, seed: int | None = None) -> Looked:
    """Read a table, or draw rows of one that is larger than memory."""
    from tulle._large.machine import Budget, Machine

    if format_of(source) is Format.SQL or needed(source) <= half_of_memory():
        table = read_table(source)
        return Looked(table, table.height, [])
    words = tuple(as_generator(seed).integers(2**63, size=4).tolist())
    opened = open_table(source)
    sample, records, _ = sample_rows(Machine(opened.batches, Budget(0, 1)).read, SAMPLE, words)
    note = (
        f"the table has {records:,} records, more than memory holds: what is said here rests on "
        f"{sample.height:,} of them, drawn at random"
    )
    return Looked(sample, records, [note])


def repeated_in(source: FilePath, columns: list[Column], records: int) -> list[str]:
    """Say which columns look unique in a sample of a table but repeat in the whole."""
    from tulle._large.machine import Budget, Machine

    opened = open_table(source)

    def engine(names: list[str] | None = None, apart: Apart | None = None) -> Machine:
        return Machine(lambda: opened.batches(names), Budget(0, 1))

    try:
        refuse_repeated(engine, columns, records, 0)
    except DataError as error:
        return [str(error)]
    return []


def needed(source: FilePath) -> float:
    """Estimate the bytes that condensing or attacking a table in memory takes."""
    kind = format_of(source)
    if kind is Format.EXCEL:
        return 0.0  # a sheet has a million rows at most
    parts = parts_of(source)
    if parts:
        return sum(map(needed, parts))
    path = existing_file(source)
    if kind in _PER_BYTE:
        packed = _PACKED if is_compressed(source) else 1
        return float(path.stat().st_size * _PER_BYTE[kind] * packed)
    if path.stat().st_size * 100 < _LEAST:
        return 0.0  # nothing packs that well: no need to load a library to look
    with readable_as(source, kind):
        lazy = (pl.scan_parquet if kind is Format.PARQUET else pl.scan_ipc)(path, glob=False)
        rows = int(lazy.select(pl.len()).collect().item())
        kinds = lazy.collect_schema().dtypes()
        words = sum(kind in (pl.String, pl.Categorical, pl.Enum) for kind in kinds)
        return float(rows * (len(kinds) + (_WORD - 1) * words) * _EACH)


def half_of_memory() -> float:
    """Return half of the bytes of memory that this process may use."""
    sizes = [math.inf]
    try:
        sizes.append(float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE"))
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        sizes.append(float(limit) if limit != "max" else math.inf)
    except (AttributeError, ValueError, OSError):
        pass
    return min(sizes) / 2


class EngineOf(Protocol):
    """Gives an engine that sees some columns only, of people who are not kept apart."""

    def __call__(
        self, names: list[str] | None = None, apart: Apart | None = None
    ) -> BlockEngine: ...


class Repeats:
    """Some values of columns that look unique in a sample of a table.

    They may name people with several rows, who would then be counted once for each row.
    """

    def __init__(self, names: list[str], records: int, seed: int) -> None:
        self.samples = {name: HashSample.of_table(_VALUES, records) for name in names}
        self._seed = seed

    def add(self, frame: pl.DataFrame) -> None:
        """Take in the values of a batch."""
        for name, sample in self.samples.items():
            present = frame.select(name).drop_nulls()
            sample.add(present, person_keys(present[name], self._seed))

    def merge(self, other: Repeats) -> None:
        """Take in the values of other rows."""
        for name, sample in self.samples.items():
            sample.merge(other.samples[name])


def refuse_repeated(engine: EngineOf, columns: list[Column], records: int, seed: int) -> None:
    """Raise if the values of a column that looks unique in a sample repeat in the table."""
    names = [column.name for column in columns if column.role is Role.IDENTIFIER]
    if not names or column_of(columns, Role.PERSON) is not None:
        return
    for name, sample in engine(names).read(Repeats(names, records, seed)).samples.items():
        values = sample.rows()[0][name]
        if len(values) > _REPEATED * values.n_unique():
            raise DataError(
                f"column '{name}' looks like an identifier, but its values repeat: about "
                f"{len(values) / values.n_unique():.1f} rows each. If it names people with several "
                'rows, state so in a policy (role = "person"), else that it is an identifier'
            )
