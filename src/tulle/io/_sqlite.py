"""What is particular to SQLite: values have types, columns have not, and times are text.

The types of *all* values of a column decide: text if there is any, else decimals, else integers.
Columns declared as booleans become such, text becomes dates or times if all of it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from tulle.errors import DataError
from tulle.io._formats import BATCH_ROWS, Format
from tulle.io._headers import refuse_doubled
from tulle.io._sql import Address, SqlPlan, execute, quoted, record_batches
from tulle.io._text_types import TEMPORAL, ColumnGuess
from tulle.io.write import flat, refuse_alike

_OPTIONS = {"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)}
_AT_ONCE = 200  # columns asked about in one statement: SQLite allows 2000 results
_SEEDS: dict[pl.DataType, str] = {pl.Int64(): "0", pl.Float64(): "0.0", pl.String(): "''"}
_CASTS: dict[pl.DataType, str] = {pl.Int64(): "INTEGER", pl.Float64(): "REAL", pl.String(): "TEXT"}
# the tables, and what they declare (a column of no other table is part of the own key)
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
DECLARED = (
    f"{_TABLES} ORDER BY name",
    f"""SELECT -1, m.name, i.name, NULL, NULL, i.pk AS place
        FROM ({_TABLES}) m, pragma_table_info(m.name) i WHERE i.pk > 0
        UNION ALL SELECT f.id, m.name, f."from", f."table", f."to", f.seq
        FROM ({_TABLES}) m, pragma_foreign_key_list(m.name) f ORDER BY 2, 1, 6""",
)


def plan(address: Address, connection: Any) -> SqlPlan:
    """Look at the type of every value, and at every text that may be a time."""
    # as a subquery, names that occur twice would be changed in silence
    whole = f"SELECT * FROM {address.subquery} LIMIT 0"
    with connection.cursor() as cursor:
        cursor.execute(address.selection if address.is_query else whole)
        names = [str(column[0]) for column in cursor.description]
    refuse_doubled(address.shown, names)
    stored = _stored_types(address, connection, names)
    booleans = _booleans(address, connection, stored)
    guesses = _guesses(address, connection, stored)
    expressions: dict[str, pl.Expr] = {}
    schema: dict[str, pl.DataType] = {}
    for name, dtype in stored.items():
        guess = guesses.get(name)
        expressions[name], schema[name] = pl.col(name), dtype
        if name in booleans:
            expressions[name], schema[name] = pl.col(name).cast(pl.Boolean), pl.Boolean()
        elif guess and guess.result:
            expressions[name], schema[name] = guess.expression(name), guess.result.dtype

    def batches(connection: Any, names: list[str]) -> Iterator[pl.DataFrame]:
        for frame in _typed_batches(address, connection, {name: stored[name] for name in names}):
            yield frame.select(expressions[name] for name in names)

    return SqlPlan(pl.Schema(schema), batches)


def write(address: Address, connection: Any, frames: Iterable[pl.DataFrame]) -> None:
    """Create the table and fill it; the caller commits."""
    created = False
    for frame in frames:
        if not created:
            refuse_alike(frame.columns, Format.SQL)
            execute(connection, f"CREATE TABLE {address.subquery} ({_declared(frame.schema)})")
            created = True
        simple = flat(frame, Format.SQL)
        table = simple.select(_storable(series) for series in simple).to_arrow()
        with connection.cursor() as cursor:
            cursor.adbc_ingest(address.selection, table, mode="append")


def _stored_types(address: Address, connection: Any, names: list[str]) -> dict[str, pl.DataType]:
    types: dict[str, pl.DataType] = {}
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        asked = ", ".join(
            f"max(typeof({quoted(name)}) = '{kind}')"
            for name in some
            for kind in ("blob", "text", "real", "integer")
        )
        (flags,) = execute(connection, f"SELECT {asked} FROM {address.subquery}")
        for i, name in enumerate(some):
            blob, text, real, integer = flags[4 * i : 4 * i + 4]
            if blob:
                raise DataError(
                    f"{address.shown}: the column '{name}' holds binary data: convert it or leave "
                    "it out"
                )
            if text or not (real or integer):
                types[name] = pl.String()
            else:
                types[name] = pl.Float64() if real else pl.Int64()
    return types


def _booleans(address: Address, connection: Any, stored: dict[str, pl.DataType]) -> set[str]:
    """Return the columns of a table that are declared boolean and hold nothing but 0 and 1."""
    if address.is_query:
        return set()
    table = "'" + address.selection.replace("'", "''") + "'"
    declared = execute(connection, f"SELECT name, type FROM pragma_table_info({table})")
    booleans = set()
    for name, kind in declared:
        if "BOOL" in str(kind).upper() and stored.get(name) == pl.Int64():
            bounds = f"min({quoted(name)}) >= 0 AND max({quoted(name)}) <= 1"
            ((inside,),) = execute(connection, f"SELECT {bounds} FROM {address.subquery}")
            booleans |= {name} if inside else set()
    return booleans


def _guesses(
    address: Address, connection: Any, stored: dict[str, pl.DataType]
) -> dict[str, ColumnGuess]:
    texts = {name: dtype for name, dtype in stored.items() if dtype == pl.String()}
    guesses = {name: ColumnGuess(TEMPORAL) for name in texts}
    if not texts:
        return guesses
    for frame in _typed_batches(address, connection, texts):
        for name, guess in guesses.items():
            guess.update(frame[name])
        if not any(guess.candidates for guess in guesses.values()):
            break
    return guesses


def _typed_batches(
    address: Address, connection: Any, types: dict[str, pl.DataType]
) -> Iterator[pl.DataFrame]:
    """Yield the records, each column with the type given.

    The driver takes its types from the first batch and fails at a later value of another one. So
    one record of our own, with the right types, goes ahead of the others and is dropped again.
    """
    seed = ", ".join(f"{_SEEDS[dtype]} AS {quoted(name)}" for name, dtype in types.items())
    casts = ", ".join(f"CAST({quoted(name)} AS {_CASTS[dtype]})" for name, dtype in types.items())
    statement = f"SELECT {seed} UNION ALL SELECT {casts} FROM {address.subquery}"
    first = True
    for frame in record_batches(connection, statement, _OPTIONS):
        yield frame.slice(1) if first else frame
        first = False


def _declared(schema: pl.Schema) -> str:
    return ", ".join(f"{quoted(name)} {_declaration(dtype)}" for name, dtype in schema.items())


def _declaration(dtype: pl.DataType) -> str:
    if dtype == pl.Boolean:
        return "BOOLEAN"
    if dtype.is_integer():
        return "INTEGER"
    return "REAL" if dtype.is_numeric() else "TEXT"


def _storable(series: pl.Series) -> pl.Series:
    if series.dtype == pl.Datetime:
        return series.dt.to_string("iso:strict")
    if series.dtype.is_temporal():
        return series.dt.to_string("iso")
    if series.dtype == pl.Boolean:
        return series.cast(pl.Int64)
    return series.cast(pl.Float64) if series.dtype.is_decimal() else series
