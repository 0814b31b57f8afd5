"""What is particular to PostgreSQL: types that Arrow has no like of are cast in the query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from tulle.errors import DataError
from tulle.io._formats import Format
from tulle.io._headers import refuse_doubled
from tulle.io._sql import Address, SqlPlan, quoted, record_batches, refuse_long
from tulle.io.write import flat

_CASTS = {"numeric": "::double precision", "money": "::numeric::double precision"}
_TEXT = "::text"
# the tables, and what they declare (a column of no other table is part of the own key)
DECLARED = (
    """SELECT relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND pg_table_is_visible(c.oid)
       AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' ORDER BY 1""",
    """SELECT k.oid::bigint, t.relname::text, a.attname::text, p.relname::text, b.attname::text
       FROM pg_constraint k JOIN pg_class t ON t.oid = k.conrelid
       LEFT JOIN pg_class p ON p.oid = k.confrelid
       CROSS JOIN LATERAL unnest(k.conkey, k.confkey) WITH ORDINALITY AS u (own, other, place)
       JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = u.own
       LEFT JOIN pg_attribute b ON b.attrelid = p.oid AND b.attnum = u.other
       WHERE k.contype IN ('p', 'f') AND pg_table_is_visible(t.oid) ORDER BY k.oid, u.place""",
)


def plan(address: Address, connection: Any) -> SqlPlan:
    """Find the types; they are declared, so no record is read."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {address.subquery} LIMIT 0")
        fields = list(cursor.fetch_arrow_table().schema)
    refuse_doubled(address.shown, [field.name for field in fields])
    expressions = {field.name: _selected(field) for field in fields}

    def statement(names: Iterable[str]) -> str:
        return f"SELECT {', '.join(expressions[name] for name in names)} FROM {address.subquery}"

    with connection.cursor() as cursor:
        cursor.execute(statement(expressions) + " LIMIT 0")
        empty = pl.from_arrow(cursor.fetch_arrow_table())
    assert isinstance(empty, pl.DataFrame)
    return SqlPlan(empty.schema, lambda link, names: record_batches(link, statement(names)))


def write(address: Address, connection: Any, frames: Iterable[pl.DataFrame]) -> None:
    """Create the table and fill it; the caller commits."""
    schema, name = address.table
    mode = "create"
    for frame in frames:
        refuse_long(frame.columns)
        simple = flat(frame, Format.SQL)
        with connection.cursor() as cursor:
            table = simple.select(_storable(series) for series in simple).to_arrow()
            cursor.adbc_ingest(name, table, mode=mode, db_schema_name=schema)
        mode = "append"


def _storable(series: pl.Series) -> pl.Series:
    """Return the values, unless they are times whose nanoseconds PostgreSQL would cut off."""
    fine = series.dtype == pl.Time or getattr(series.dtype, "time_unit", None) == "ns"
    if fine and (series.to_physical() % 1000 != 0).any():
        raise DataError(
            f"the column '{series.name}' holds times finer than a microsecond, which PostgreSQL "
            "cannot store: round them, or write Parquet"
        )
    return series


def _selected(field: Any) -> str:
    name = quoted(field.name)
    metadata = field.metadata or {}
    declared = metadata.get(b"POSTGRESQL:type", b"").decode()
    foreign = hasattr(field.type, "extension_name") or str(field.type).endswith("_interval")
    if declared in _CASTS:
        cast = _CASTS[declared]
    elif foreign or declared == "bpchar":  # padded with spaces
        cast = _TEXT
    else:
        return name
    return f"{name}{cast} AS {name}"
