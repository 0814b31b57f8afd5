"""Files of DuckDB: a connection, and one table (``duckdb:///file.duckdb#table``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import polars as pl

from tulle.errors import DataError, missing_extra, nearest_name
from tulle.io._formats import Source, display_name, existing_file, is_query

TABLES = "SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY table_name"


def read_duckdb_table(source: str) -> pl.DataFrame:
    """Return a table or the result of a query; decimals of a declared precision become floats."""
    place, _, selection = source.partition("#")
    path = existing_file(place[len("duckdb:///") :])
    with duckdb_connection(path) as connection:
        if is_query(selection):
            return floats(connection.sql(selection.strip().rstrip(";")).pl())
        names = [name for (name,) in connection.execute(TABLES).fetchall()]
        if selection not in names:
            hint = nearest_name(selection, names)
            raise DataError(f"{display_name(source)}: name a table after a #: {hint}")
        return floats(duckdb_table(connection, selection))


def duckdb_table(connection: Any, name: str) -> pl.DataFrame:
    """Return a whole table."""
    found: pl.DataFrame = connection.table('"' + name.replace('"', '""') + '"').pl()
    return found


def floats(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table with floats for decimals."""
    return frame.cast({pl.Decimal: pl.Float64})


@contextmanager
def duckdb_connection(source: Source) -> Iterator[Any]:
    """Open a file for reading; errors are passed on without their words, which may quote a cell."""
    try:
        import duckdb
    except ImportError:
        raise missing_extra("duckdb", "duckdb", "DuckDB") from None
    try:
        with duckdb.connect(os.fspath(source), read_only=True) as connection:
            yield connection
    except duckdb.Error as error:
        raise DataError(
            f"{source}: DuckDB reported an error ({type(error).__name__}): is it open elsewhere, "
            "or of a newer version?"
        ) from None
