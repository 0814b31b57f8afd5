"""Reading tables: any format, whole or in batches of one schema with bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from tulle.checks import check_int
from tulle.errors import DataError, ParameterError, nearest_name
from tulle.tables.formats import (
    Format,
    Source,
    display_name,
    existing_file,
    format_of,
    readable_as,
)
from tulle.tables.frames import refuse_patterns

BATCH_ROWS = 50_000


def read_table(source: Source, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """A whole table.

    Parameters
    ----------
    source : a file (CSV, NDJSON, Parquet, Arrow, Excel by its extension; ``.gz`` for the first
        two) or a database URI (``sqlite:///file.db#table``, ``postgresql://host/db#SELECT ...``)
    columns : the columns to read, in this order; all if None

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("zip,age\\n01234,40\\n98765,41\\n")
    >>> dict(read_table(path).schema)
    {'zip': String, 'age': Int64}
    """
    opened = _open(source, hold=True)
    return pl.concat(opened.frames(_chosen(source, opened.schema, columns)), rechunk=True)


def read_batches(
    source: Source, rows: int = BATCH_ROWS, columns: Sequence[str] | None = None
) -> Iterator[pl.DataFrame]:
    """A table in batches of ``rows`` records (the last may be shorter), all of one schema.

    Gives at least one batch, which is empty if the table has no record. Excel is read whole.
    """
    check_int("read_batches", "rows", rows, 1)
    opened = _open(source)
    names = _chosen(source, opened.schema, columns)
    return rebatched(opened.frames(names), rows)


def read_schema(source: Source) -> pl.Schema:
    """Names and types of the columns."""
    return _open(source).schema


@dataclass(frozen=True)
class _Opened:
    """A table whose types are known; ``frames`` gives the named columns, at least one frame."""

    schema: pl.Schema
    frames: Callable[[list[str]], Iterator[pl.DataFrame]]


def _open(source: Source, *, hold: bool = False) -> _Opened:
    """Finds the types; ``hold``: there is memory for the whole table meanwhile."""
    kind = format_of(source)
    if kind is Format.SQL:
        from tulle.tables.sql import open_query

        query = open_query(str(source))
        return _Opened(query.schema, query.frames)
    if kind is Format.EXCEL:
        from tulle.tables.excel import read_excel

        frame = read_excel(source)
        return _Opened(frame.schema, lambda names: iter([frame.select(names)]))
    path = existing_file(source)
    if kind is Format.CSV:
        from tulle.tables.csv_reader import csv_frames, plan_csv

        csv = plan_csv(path, hold=hold)
        return _Opened(csv.schema, lambda names: csv_frames(csv, names))
    if kind is Format.NDJSON:
        from tulle.tables.ndjson_reader import ndjson_frames, plan_ndjson

        lines = plan_ndjson(path)
        return _Opened(lines.schema, lambda names: ndjson_frames(lines, names))
    scan = pl.scan_parquet if kind is Format.PARQUET else pl.scan_ipc
    with readable_as(source, kind):
        lazy = scan(path, glob=False)
        schema = lazy.collect_schema()
    return _Opened(schema, lambda names: _streamed(source, kind, lazy.select(names)))


def _streamed(source: Source, kind: Format, lazy: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """The frames of a lazy query, in order; the one place that uses the unstable method."""
    with readable_as(source, kind):
        yield pl.DataFrame(schema=lazy.collect_schema())
        yield from lazy.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True, lazy=True)


def _chosen(source: Source, schema: pl.Schema, columns: Sequence[str] | None) -> list[str]:
    refuse_patterns(schema)
    if columns is None:
        return list(schema)
    if isinstance(columns, str) or not columns or len(set(columns)) < len(columns):
        raise ParameterError("'columns' must be a list of names, each of them once, or None")
    for name in columns:
        if name not in schema:
            hint = nearest_name(name, schema)
            raise DataError(f"{display_name(source)}: has no column '{name}': {hint}")
    return list(columns)


def rebatched(frames: Iterable[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """The same records in frames of exactly ``rows``, the last one excepted."""
    held: list[pl.DataFrame] = []
    count, given = 0, False
    for frame in frames:
        held.append(frame)
        count += frame.height
        if count < rows:
            continue
        whole = pl.concat(held, rechunk=False)
        for start in range(0, count - rows + 1, rows):
            yield whole.slice(start, rows)
            given = True
        held, count = [whole.slice(count - count % rows)], count % rows
    if held and (count or not given):
        yield pl.concat(held)
