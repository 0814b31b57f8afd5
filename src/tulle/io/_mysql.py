"""Tables of MySQL and MariaDB, which are only read: ``mysql://user@host/database#table``.

There is no ADBC driver for them among Python's packages, so a client of pure Python fetches text,
and the declared types say what becomes of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import polars as pl

from tulle.errors import DataError
from tulle.io._formats import BATCH_ROWS, check_table, display_name, extra_library, is_query
from tulle.io._headers import refuse_doubled

_HERE = "table_schema = DATABASE()"
_TABLES = f"SELECT table_name, table_type = 'VIEW' FROM information_schema.tables WHERE {_HERE}"
_KEYS = (
    "SELECT constraint_name, table_name, column_name, referenced_table_name, "
    f"referenced_column_name FROM information_schema.key_column_usage WHERE {_HERE} AND "
    "(constraint_name = 'PRIMARY' OR referenced_table_schema = DATABASE()) "
    "ORDER BY table_name, constraint_name, ordinal_position"
)
_TYPES: dict[str, pl.DataType] = {
    **dict.fromkeys(("TINY", "SHORT", "INT24", "LONG", "LONGLONG", "YEAR"), pl.Int64()),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL", "NEWDECIMAL"), pl.Float64()),
    **dict.fromkeys(("TIMESTAMP", "DATETIME"), pl.Datetime("us")),
    **dict.fromkeys(("DATE", "NEWDATE"), pl.Date()),
    "TIME": pl.Time(),
}


def declared(source: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of the tables, views left out, and the keys that they declare."""
    with _connected(source) as connection:
        tables = [str(name) for name, view in _fetched(connection, _TABLES) if view == "0"]
        return sorted(tables), _fetched(connection, _KEYS)


def open_mysql(source: str) -> tuple[pl.Schema, Any]:
    """Return the types of a table or query, and its frames of the columns that are named."""
    selection = source.partition("#")[2].strip()
    with _connected(source) as connection:
        if is_query(selection):
            table = f"({selection.rstrip(';')}\n) AS t"
        else:
            names = [str(name) for name, _ in _fetched(connection, _TABLES)]
            check_table(source, selection, names)
            table = _quoted(selection)
        schema = _schema(source, connection, f"SELECT * FROM {table} LIMIT 0")

    def frames(names: list[str]) -> Iterator[pl.DataFrame]:
        statement = f"SELECT {', '.join(map(_quoted, names))} FROM {table}"
        with _connected(source) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            yield pl.DataFrame(schema={name: schema[name] for name in names})
            while rows := cursor.fetchmany(BATCH_ROWS):
                parts = zip(names, zip(*rows))
                yield pl.DataFrame([_typed(source, name, one, schema[name]) for name, one in parts])

    return schema, frames


def _schema(source: str, connection: Any, statement: str) -> pl.Schema:
    from pymysql.constants import FIELD_TYPE

    of_code = {getattr(FIELD_TYPE, name): dtype for name, dtype in _TYPES.items()}
    with connection.cursor() as cursor:
        cursor.execute(statement)
        columns = [(str(name), code) for name, code, *_ in cursor.description]
    refuse_doubled(display_name(source), [name for name, _ in columns])
    return pl.Schema({name: of_code.get(code, pl.String()) for name, code in columns})


def _typed(source: str, name: str, values: Sequence[str | None], dtype: pl.DataType) -> pl.Series:
    """Convert what the server wrote as text; its zero dates stand for missing ones."""
    try:
        texts = pl.Series(name, values, dtype=pl.String)
        if dtype in (pl.Date, pl.Datetime):
            texts = texts.set(texts.str.starts_with("0000-00-00"), None)
        if dtype == pl.Date:
            return texts.str.to_date("%Y-%m-%d")
        if dtype == pl.Datetime:
            return texts.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us")
        return texts.str.to_time("%H:%M:%S%.f") if dtype == pl.Time else texts.cast(dtype)
    except (TypeError, pl.exceptions.PolarsError):
        raise DataError(
            f"{display_name(source)}: the column '{name}' holds values that are not {dtype}, such "
            "as binary data or times beyond a day: convert it in a query or leave it out"
        ) from None


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _fetched(connection: Any, statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


@contextmanager
def _connected(source: str) -> Iterator[Any]:
    """Open a connection; errors are passed on without their words, which may quote a cell."""
    pymysql = extra_library("pymysql", "mysql", "MySQL")
    uri = urlsplit(source.partition("#")[0])
    try:
        port = uri.port or 0
    except ValueError:  # a sign of the password that stands for itself
        raise DataError(
            f"{display_name(source)}: not an address: write the signs of a password as %3A "
            "(:), %2F (/) or %40 (@), or give it in MYSQL_PWD"
        ) from None
    stage = "cannot connect: is the server running, and are host, user and password correct?"
    try:
        with pymysql.connect(
            host=uri.hostname, port=port, user=unquote(uri.username or ""),
            password=unquote(uri.password or "") or os.environ.get("MYSQL_PWD", ""),
            database=unquote(uri.path.strip("/")), charset="utf8mb4",
            cursorclass=pymysql.cursors.SSCursor, conv=pymysql.converters.encoders,
            read_default_file=os.path.expanduser("~/.my.cnf"),
        ) as connection:  # fmt: skip
            stage = "the database reported an error"
            yield connection
    except (pymysql.Error, OSError, UnicodeDecodeError) as error:
        number = error.args[0] if isinstance(error, pymysql.Error) and error.args else ""
        code = f" {number}" if isinstance(number, int) else ""
        raise DataError(f"{display_name(source)}: {stage} ({type(error).__name__}{code})") from None
