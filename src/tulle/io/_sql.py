"""Database tables and queries, through ADBC: ``URI#table`` or ``URI#SELECT ...``.

::

    sqlite:///clinic.db#visits               a file in this folder (four slashes: an absolute path)
    postgresql://ann@db.example/clinic#visits
    postgresql://db.example/clinic#SELECT age, sex FROM visits WHERE year = 2024

A table is written in one transaction: it is there whole, or it is as it was before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import polars as pl

from tulle.errors import DataError, OutputExists
from tulle.io._formats import (
    Format,
    check_table,
    display_name,
    existing_file,
    extra_library,
    is_mysql,
    is_query,
)
from tulle.io._text import stamp_of
from tulle.table._links import Link

_LONGEST_NAME = 63  # bytes, of PostgreSQL


@dataclass(frozen=True)
class Address:
    source: str
    sqlite: bool
    place: str  # the path of an SQLite file, or the URI of a PostgreSQL database
    selection: str

    @property
    def shown(self) -> str:
        return display_name(self.source)

    @property
    def is_query(self) -> bool:
        return is_query(self.selection)

    @property
    def table(self) -> tuple[str | None, str]:
        schema, dot, name = self.selection.partition(".")
        return (schema, name) if dot and not self.sqlite else (None, self.selection)

    @property
    def subquery(self) -> str:
        if self.is_query:
            # on a line of its own the bracket is not part of a comment at the end of the query
            return f"({self.selection.strip().rstrip(';')}\n) AS t"
        schema, name = self.table
        return quoted(name) if schema is None else f"{quoted(schema)}.{quoted(name)}"


class SqlPlan(NamedTuple):
    """The types of a table or query, and what fetches some of its columns over a connection."""

    schema: pl.Schema
    batches: Callable[[Any, list[str]], Iterator[pl.DataFrame]]


# A table or query whose types are known: these, and its frames of the columns that are named.
Query = tuple[pl.Schema, Callable[[list[str]], Iterator[pl.DataFrame]]]


def parse(source: str) -> Address:
    uri, _, selection = source.partition("#")
    scheme, _, rest = uri.partition("://")
    sqlite = scheme.lower() == "sqlite"
    if sqlite and not rest.startswith("/"):
        raise DataError(f"{display_name(source)}: write sqlite:///file.db#table (three slashes)")
    place = rest[1:] if sqlite else uri
    if sqlite and (not place or place.startswith((":", "file:"))):
        # SQLite would take a database in memory, and what is written there is gone
        raise DataError(f"{display_name(source)}: give a file: sqlite:///file.db#table")
    return Address(source, sqlite, place, selection.strip())


class Declared(NamedTuple):
    """The tables of a database (no views), with the keys that it declares."""

    tables: list[str]
    keys: dict[str, tuple[str, ...]]
    links: list[Link]

    @classmethod
    def of(cls, tables: list[str], rows: Iterable[tuple[Any, ...]]) -> Declared:
        """Read rows of (constraint, table, column, other table, other column), in their order.

        The other table is None in rows about the table's own key.
        """
        parts: dict[Any, list[tuple[Any, ...]]] = {}
        for constraint, *columns in rows:
            parts.setdefault((columns[0], constraint, columns[2]), []).append((*columns,))
        keys = {t: tuple(c[1] for c in cs) for (t, _, other), cs in parts.items() if other is None}
        links = [
            Link(
                table,
                tuple(column[1] for column in columns),
                other,
                tuple(column[3] for column in columns if column[3]) or keys.get(other, ()),
            )
            for (table, _, other), columns in parts.items()
            if other is not None
        ]
        known = [one for one in links if one.parent in tables and len(one.key) == len(one.columns)]
        return cls(tables, {t: key for t, key in keys.items() if t in tables}, known)


def declared_tables(source: str) -> Declared:
    if is_mysql(source):
        return Declared.of(*import_module("tulle.io._mysql").declared(source))
    if is_duckdb(source):
        with duckdb_connection(source) as connection:
            tables = connection.execute(_DUCKDB_TABLES).fetchall()
            rows = connection.execute(_DUCKDB_KEYS).fetchall()
        return Declared.of([name for (name,) in tables], rows)
    address = parse(source)
    if address.sqlite:
        existing_file(address.place)
    with connected(address) as connection:
        tables, rows = (execute(connection, s) for s in _dialect(address).DECLARED)
    return Declared.of([str(name) for (name,) in tables], rows)


def open_query(source: str) -> Query:
    if is_mysql(source):
        return cast(Query, import_module("tulle.io._mysql").open_mysql(source))
    if is_duckdb(source):
        frame = _duckdb_frame(source)
        return frame.schema, lambda names: iter([frame.select(names)])
    address = parse(source)
    if address.sqlite:
        existing_file(address.place)
    stamps = _stamps(address)
    with connected(address) as connection:
        if not address.is_query:
            _check_table(address, connection)
        plan = _dialect(address).plan(address, connection)

    def frames(names: list[str]) -> Iterator[pl.DataFrame]:
        with connected(address) as connection:
            if _stamps(address) != stamps:  # values of other types would be made fit in silence
                raise DataError(f"{address.shown}: the database changed while it was read")
            yield pl.DataFrame(schema={name: plan.schema[name] for name in names})
            yield from plan.batches(connection, names)

    return plan.schema, frames


def write_rows(frames: Iterable[pl.DataFrame], target: str, *, force: bool = False) -> None:
    address = writable(target)
    with transaction(address) as connection:
        put_rows(frames, address, connection, force=force)


def writable(target: str) -> Address:
    """Return the address of a table that can be written, if the database lets us."""
    address = parse(target)
    if address.is_query or not address.selection:
        raise DataError(f"{address.shown}: name the table to write after a #")
    if address.sqlite and not Path(address.place).parent.is_dir():
        raise DataError(f"the folder {Path(address.place).parent} does not exist")
    if not address.sqlite:
        refuse_long([address.table[1]])
    return address


def refuse_long(names: Iterable[str]) -> None:
    """Refuse names that PostgreSQL would silently truncate."""
    for name in names:
        if len(name.encode()) > _LONGEST_NAME:
            raise DataError(
                f"the name '{name}' is too long for PostgreSQL, which keeps {_LONGEST_NAME} bytes "
                "of it: choose a shorter one"
            )


@contextmanager
def transaction(address: Address) -> Iterator[Any]:
    """Open a connection for writing: all or nothing, and no new file left behind for nothing."""
    fresh = address.sqlite and not Path(address.place).exists()
    try:
        with connected(address, writing=True) as connection:
            yield connection
            connection.commit()
    except BaseException:
        if fresh:
            with suppress(FileNotFoundError):
                Path(address.place).unlink()
        raise


def put_rows(
    frames: Iterable[pl.DataFrame], address: Address, connection: Any, *, force: bool
) -> None:
    if has_table(address, connection):
        if not force:
            raise OutputExists(
                f"{address.shown} exists already: pass --force (force=True) to replace it"
            )
        execute(connection, f"DROP TABLE {address.subquery}")
    _dialect(address).write(address, connection, frames)


def get_rows(address: Address, connection: Any) -> Iterator[pl.DataFrame]:
    """Yield the records of a table as they are within a transaction."""
    plan = _dialect(address).plan(address, connection)
    yield plan.schema.to_frame()
    yield from plan.batches(connection, list(plan.schema))


def has_table(address: Address, connection: Any) -> bool:
    tables = _tables(address, connection)
    if address.sqlite:  # to which capitals are the same
        return address.selection.lower() in {name.lower() for _, name in tables}
    return address.table in tables


def quoted(name: str) -> str:
    """Return a name quoted so that SQL takes it literally."""
    return '"' + name.replace('"', '""') + '"'


def execute(connection: Any, statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


def record_batches(
    connection: Any, statement: str, options: dict[str, str] | None = None
) -> Iterator[pl.DataFrame]:
    """Run a query and yield its records as they come."""
    with connection.cursor(adbc_stmt_kwargs=options) as cursor:
        cursor.execute(statement)
        for batch in cursor.fetch_record_batch():
            batch.validate(full=True)  # text that is not UTF-8 would make polars panic
            frame = pl.from_arrow(batch)
            assert isinstance(frame, pl.DataFrame)
            yield frame


@contextmanager
def connected(address: Address, *, writing: bool = False) -> Iterator[Any]:
    """Open a connection; errors of the database are passed on without their wording.

    They may quote a cell, the query or the password.
    """
    driver = "adbc_driver_sqlite" if address.sqlite else "adbc_driver_postgresql"
    dbapi, arrow = (
        extra_library(name, "db", Format.SQL) for name in (f"{driver}.dbapi", "pyarrow")
    )
    theirs = (dbapi.Error, arrow.ArrowException, OSError, pl.exceptions.PolarsError)
    place = address.place
    if address.sqlite and not writing:
        # what a killed writer left has to be taken back first, as any reader of SQLite does
        mode = "rw" if Path(f"{place}-journal").exists() else "ro"
        place = f"file:{quote(place)}?mode={mode}"
    stage = "cannot connect: is the server running, and are host, user and password correct?"
    try:
        with dbapi.connect(place) as connection:
            stage = "the database reported an error"
            yield connection
    except theirs as error:
        state = getattr(error, "sqlstate", None)
        code = f", SQLSTATE {state}" if state else ""
        raise DataError(f"{address.shown}: {stage} ({type(error).__name__}{code})") from None


def _stamps(address: Address) -> list[tuple[int, int]]:
    """Return what shows whether an SQLite file was written to; PostgreSQL declares its types."""
    places = [Path(address.place + ending) for ending in ("", "-wal")] if address.sqlite else []
    return [stamp_of(place) for place in places if place.exists() and place.stat().st_size]


def _check_table(address: Address, connection: Any) -> None:
    tables = _tables(address, connection)
    if address.table not in tables:
        names = [name if schema is None else f"{schema}.{name}" for schema, name in tables]
        check_table(address.source, address.selection, names)


def _tables(address: Address, connection: Any) -> list[tuple[str | None, str]]:
    """Return tables and views; those that need no schema first."""
    if address.sqlite:
        kinds = "type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        statement = f"SELECT name FROM sqlite_master WHERE {kinds} ORDER BY name"
        return [(None, name) for (name,) in execute(connection, statement)]
    statement = (
        "SELECT n.nspname::text, c.relname::text, pg_table_is_visible(c.oid) "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT LIKE 'pg\\_%' "
        "AND n.nspname <> 'information_schema' ORDER BY 2"
    )
    found = execute(connection, statement)
    visible: list[tuple[str | None, str]] = [(None, name) for _, name, seen in found if seen]
    return visible + [(schema, name) for schema, name, _ in found]


def _dialect(address: Address) -> Any:
    return import_module(f"tulle.io._{'sqlite' if address.sqlite else 'postgres'}")


# Files of DuckDB, which are only read: ``duckdb:///file.duckdb#table``.

_DUCKDB_TABLES = "SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY table_name"
_DUCKDB_KEYS = (
    "SELECT constraint_index, table_name, unnest(constraint_column_names), referenced_table, "
    "unnest(referenced_column_names) FROM duckdb_constraints() "
    "WHERE constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY')"
)


def is_duckdb(source: str) -> bool:
    return source.lower().startswith("duckdb://")


def _duckdb_frame(source: str) -> pl.DataFrame:
    """Read a table or the result of a query; decimals of a declared precision become floats."""
    selection = source.partition("#")[2]
    with duckdb_connection(source) as connection:
        if is_query(selection):
            relation = connection.sql(selection.strip().rstrip(";"))
        else:
            names = connection.execute(_DUCKDB_TABLES).fetchall()
            check_table(source, selection, [name for (name,) in names])
            relation = connection.table(quoted(selection))
        found: pl.DataFrame = relation.pl().cast({pl.Decimal: pl.Float64})
        return found


@contextmanager
def duckdb_connection(source: str) -> Iterator[Any]:
    """Open a file for reading; errors are passed on without their words, which may quote a cell."""
    duckdb = extra_library("duckdb", "duckdb", "DuckDB")
    path = existing_file(source.partition("#")[0][len("duckdb:///") :])
    try:
        with duckdb.connect(os.fspath(path), read_only=True) as connection:
            yield connection
    except duckdb.Error as error:
        raise DataError(
            f"{path}: DuckDB reported an error ({type(error).__name__}): is it open elsewhere, "
            "or of a newer version?"
        ) from None
