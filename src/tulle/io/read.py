"""Reading tables: any format, whole or in batches of one schema with bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from tulle._checks import check_int
from tulle.errors import DataError, ParameterError, nearest_name
from tulle.io._csv import CsvPlan, csv_dialect, csv_frames, plan_csv
from tulle.io._dialect import Dialect
from tulle.io._formats import (
    BATCH_ROWS,
    STATISTICS,
    Format,
    Source,
    display_name,
    existing_file,
    format_of,
    parts_of,
    readable_as,
)
from tulle.io._headers import refuse_wide
from tulle.io._json_lines import JsonGuess, NdjsonPlan, ndjson_frames
from tulle.io._statistics_files import FileLabels, read_statistics
from tulle.io._text_types import TEMPORAL, ColumnGuess, TextType
from tulle.table._series import refuse_patterns


def read_table(source: Source, columns: Sequence[str] | None = None) -> pl.DataFrame:
    r"""Read a whole table.

    Parameters
    ----------
    source : path-like or str
        A file (CSV, NDJSON, Parquet, Arrow, Excel, SPSS, Stata, SAS by its extension; ``.gz`` for
        the first two), a folder of such files (of the first four) that are the parts of one table,
        or a database URI (``sqlite:///file.db#table``, ``duckdb:///file.duckdb#table``,
        ``postgresql://host/db#SELECT ...``).
    columns : sequence of str, optional
        The columns to read, in this order; all by default.

    Returns
    -------
    polars.DataFrame

    Raises
    ------
    DataError
        If the file is broken; the message names the file, the line and the count, never a cell.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from tulle import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("zip,age\n01234,40\n98765,41\n")
    >>> dict(read_table(path).schema)
    {'zip': String, 'age': Int64}
    """
    opened = _open(source)
    return pl.concat(opened.frames(_chosen(source, opened.schema, columns)), rechunk=True)


def read_written(source: Source) -> tuple[pl.DataFrame, Dialect | FileLabels | None]:
    """Read a whole table, and how its CSV is written or what its file says of the columns."""
    opened = _open(source)
    names = _chosen(source, opened.schema, None)
    return pl.concat(opened.frames(names), rechunk=True), opened.dialect()


def read_batches(
    source: Source, rows: int = BATCH_ROWS, columns: Sequence[str] | None = None
) -> Iterator[pl.DataFrame]:
    r"""Read a table in batches, all of one schema.

    Parameters
    ----------
    source : path-like or str
        As for :func:`read_table`. Excel is read whole.
    rows : int
        Records in a batch; the last may be shorter.
    columns : sequence of str, optional
        The columns to read, in this order; all by default.

    Yields
    ------
    polars.DataFrame
        At least one, which is empty if the table has no record.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from tulle import read_batches
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("age\n40\n41\n42\n")
    >>> [batch.height for batch in read_batches(path, rows=2)]
    [2, 1]
    """
    check_int("read_batches", "rows", rows, 1)
    opened = _open(source)
    names = _chosen(source, opened.schema, columns)
    return rebatched(opened.frames(names), rows)


def open_table(source: Source) -> OpenTable:
    """Open a table that is to be read several times: its types are looked for once."""
    opened = _open(source)
    refuse_patterns(opened.schema)
    return opened


def read_schema(source: Source) -> pl.Schema:
    return _open(source).schema


@dataclass(frozen=True)
class OpenTable:
    """A table whose types are known; ``frames`` gives the named columns, at least one frame."""

    schema: pl.Schema
    frames: Callable[[list[str]], Iterator[pl.DataFrame]]
    dialect: Callable[[], Dialect | FileLabels | None] = lambda: None  # how the file is written

    @classmethod
    def whole(cls, frame: pl.DataFrame, labels: FileLabels | None = None) -> OpenTable:
        return cls(frame.schema, lambda names: iter([frame.select(names)]), lambda: labels)

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pl.DataFrame]:
        return rebatched(self.frames(list(columns or self.schema)), rows)


def _open(source: Source) -> OpenTable:
    kind = format_of(source)
    if kind is Format.SQL:
        from tulle.io._sql import open_query

        return OpenTable(*open_query(str(source)))
    if kind is Format.EXCEL:
        from tulle.io._excel import read_excel

        return OpenTable.whole(read_excel(source))
    parts = parts_of(source)
    if parts:
        return _open_parts(source, parts)
    path = existing_file(source)
    if kind in STATISTICS:
        return OpenTable.whole(*read_statistics(path, kind))
    if kind is Format.CSV:
        return _of_csv(plan_csv(path))
    if kind is Format.NDJSON:
        lines = NdjsonPlan(path)
        return OpenTable(lines.schema, partial(ndjson_frames, lines))
    scan = pl.scan_parquet if kind is Format.PARQUET else pl.scan_ipc
    with readable_as(source, kind):
        lazy = scan(path, glob=False)
        schema = lazy.collect_schema()
    return OpenTable(schema, lambda names: _streamed(source, kind, lazy.select(names)))


def _open_parts(source: Source, parts: Sequence[Path]) -> OpenTable:
    if format_of(source) is Format.CSV:
        plans = [plan_csv(existing_file(part)) for part in parts]
        for name in set.intersection(*(set(plan.guesses) for plan in plans)):
            guess = ColumnGuess.of_parts([plan.guesses[name] for plan in plans])
            for plan in plans:
                plan.guesses[name] = guess
        opened = [_of_csv(plan) for plan in plans]
    elif format_of(source) is Format.NDJSON:
        known = JsonGuess(display_name(source))
        lines = [NdjsonPlan(existing_file(part), known) for part in parts]
        for one in lines:
            one.types = known.types
        opened = [OpenTable(one.schema, partial(ndjson_frames, one)) for one in lines]
    else:
        opened = [_open(part) for part in parts]
    schema = _common_schema(source, [one.schema for one in opened])

    def frames(names: list[str]) -> Iterator[pl.DataFrame]:
        types = pl.Schema({name: schema[name] for name in names})
        for one in opened:
            for frame in one.frames(names):
                yield frame.cast(types)

    return OpenTable(schema, frames, opened[0].dialect)


def _of_csv(plan: CsvPlan) -> OpenTable:
    return OpenTable(plan.schema, partial(csv_frames, plan), partial(csv_dialect, plan))


def _common_schema(source: Source, schemas: Sequence[pl.Schema]) -> pl.Schema:
    """Return the names of the parts of a table, and the types that hold the values of each."""
    found = {}
    for name in dict.fromkeys(name for schema in schemas for name in schema):
        lack = sum(name not in schema for schema in schemas)
        types = [schema[name] for schema in schemas if schema.get(name, pl.Null()) != pl.Null()]
        if lack or any(_differ(types[0], other) for other in types[1:]):
            what = f"is not in {lack}" if lack else "has types that do not go together in the"
            raise DataError(
                f"{display_name(source)}: column '{name}' {what} of {len(schemas)} parts. Write "
                "all parts with the same columns and types; tables that belong together are read "
                "by inspect, condense, split, explore and audit, with a policy that states them "
                "([tables])"
            )
        empty = [pl.DataFrame(schema={name: dtype}) for dtype in types or [pl.Null()]]
        found[name] = pl.concat(empty, how="vertical_relaxed").schema[name]
    return pl.Schema(found)


def _streamed(source: Source, kind: Format, lazy: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Yield the frames of a lazy query, in order; the one place that uses the unstable method."""
    with readable_as(source, kind):
        yield pl.DataFrame(schema=lazy.collect_schema())
        yield from lazy.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True, lazy=True)


def _chosen(source: Source, schema: pl.Schema, columns: Sequence[str] | None) -> list[str]:
    refuse_wide(display_name(source), len(schema))
    refuse_patterns(schema)
    if columns is None:
        return list(schema)
    if isinstance(columns, str) or not columns or len(set(columns)) < len(columns):
        raise ParameterError("'columns' must be a list of distinct names, or None")
    for name in columns:
        if name not in schema:
            hint = nearest_name(name, schema)
            raise DataError(f"{display_name(source)} has no column '{name}': {hint}")
    return list(columns)


def rebatched(frames: Iterable[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """Yield the same records in frames of exactly ``rows``, except for the last one."""
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


# A file read in the types of another table. Text has no types: a column of post codes is read as
# whole numbers where by chance none begins with a zero, and days of a small file may be months.
# Where two tables belong together, the first says what the columns of the second are, as far as
# the values of the second allow it.

_WORDS = (pl.String, pl.Categorical, pl.Enum)
_DAYS = (pl.Date, pl.Datetime)
_WITHOUT_TYPES = (Format.CSV, Format.NDJSON)  # NDJSON has no dates


def read_like(
    source: Source, model: pl.DataFrame, origin: Source, columns: list[str] | None = None
) -> pl.DataFrame:
    """Read a whole table, its columns in the types of those of ``model``, which was read from
    ``origin``; columns whose values do not allow it keep the type they were read in.
    """
    table = read_table(source, columns)
    odd = [
        name
        for name in table.columns
        if name in model.columns and _differ(table.schema[name], model.schema[name])
    ]
    if not odd or format_of(source) not in _WITHOUT_TYPES:
        return table
    texts, forms = _texts(source, odd), _forms(origin)
    found = [_taken(texts[name], model.schema[name], forms.get(name)) for name in odd]
    return table.with_columns(series for series in found if series is not None)


def codes_as_text(
    tables: list[pl.DataFrame], sources: Iterable[Source], names: Iterable[str]
) -> list[pl.DataFrame]:
    """Return the tables, with the named columns as text where one of the tables has them as text.

    Only whole numbers from CSV are shown as they were written; others stay what they are.
    """
    typed = any(format_of(source) is not Format.CSV for source in sources)
    mixed = [
        name
        for name in names
        if not typed and any(table.schema.get(name) == pl.String for table in tables)
    ]
    return [
        table.with_columns(
            table[name].cast(pl.String)
            for name in mixed
            if name in table.columns and table.schema[name].is_integer()
        )
        for table in tables
    ]


def _differ(a: pl.DataType, b: pl.DataType) -> bool:
    """Tell whether two types are of different sorts: numbers are one, days and moments one."""
    alike = (a.is_numeric() and b.is_numeric()) or any(
        isinstance(a, sort) and isinstance(b, sort) for sort in (_WORDS, _DAYS)
    )
    return not alike and a.base_type() != b.base_type()


def _texts(source: Source, names: list[str]) -> pl.DataFrame:
    frames: list[pl.DataFrame] = []
    parts: list[Source] = [*parts_of(source)]
    for path in map(existing_file, parts or [source]):
        if format_of(path) is Format.CSV:
            plan = plan_csv(path)
            for name in names:
                plan.guesses[name] = ColumnGuess(())
            frames += csv_frames(plan, names)
            continue
        lines = NdjsonPlan(path)
        for name in names:
            lines.types[name] = None if lines.types[name] in TEMPORAL else lines.types[name]
        frames += ndjson_frames(lines, names)
    return pl.concat(frames)


def _forms(origin: Source) -> dict[str, TextType | None]:
    """Return how the texts of the model were read; those of a folder by its first part."""
    if format_of(origin) not in _WITHOUT_TYPES:
        return {}
    path = existing_file(next(iter(parts_of(origin)), origin))
    if format_of(origin) is Format.NDJSON:
        return NdjsonPlan(path).types
    return {name: guess.result for name, guess in plan_csv(path).guesses.items()}


def _taken(texts: pl.Series, dtype: pl.DataType, form: TextType | None) -> pl.Series | None:
    """Return the texts in the type of the model; None if they do not allow it."""
    if isinstance(dtype, _WORDS):
        return texts
    if form is None or texts.dtype != pl.String:
        return None
    typed, wrong = form.read_cells(texts)
    return typed if wrong is None else None
