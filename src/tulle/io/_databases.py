"""Several tables at once: a folder of files, a file of SQLite or DuckDB, a database on a server.

A folder can also be one table in several parts. Parts have the same columns; files of which no two
have the same columns are tables of their own.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import polars as pl

from tulle.errors import DataError, nearest_name
from tulle.io._csv import csv_names
from tulle.io._formats import Format, Source, by_extension, display_name, existing_file, is_sql
from tulle.io._sql import declared_tables
from tulle.io.read import read_like, read_schema, read_table
from tulle.table._links import Link

_SQLITE, _DUCKDB = b"SQLite format 3\0", b"DUCK"  # how the files begin, the second after 8 bytes
_ENDINGS = (".db", ".sqlite", ".sqlite3", ".duckdb")


class LinkedFrames(NamedTuple):
    """The tables of a database by name, and what it declares of keys; files declare nothing."""

    frames: dict[str, pl.DataFrame]
    keys: dict[str, tuple[str, ...]]
    links: list[Link]

    def __repr__(self) -> str:
        return f"LinkedFrames({list(self.frames)})"


def is_database(source: Source) -> bool:
    """Tell whether a source is a database, or a folder of tables rather than parts of one."""
    if is_sql(source):
        return "#" not in str(source)
    path = Path(source)
    if path.is_dir():
        return _are_tables(path)
    return path.suffix.lower() in _ENDINGS or (path.is_file() and bool(_engine(path)))


def tables_of(source: Source) -> dict[str, Source]:
    """Find the tables of a folder, of a file of SQLite or DuckDB, or of a database on a server."""
    if not is_sql(source) and Path(source).is_dir():
        return dict(_files(Path(source)))
    uri = _uri(source)
    return {name: f"{uri}#{name}" for name in declared_tables(uri).tables}


def read_tables(source: Source, names: Collection[str] | None = None) -> LinkedFrames:
    places = tables_of(source)
    frames = {name: read_table(places[name]) for name in _chosen(source, list(places), names)}
    if not is_sql(source) and Path(source).is_dir():
        return LinkedFrames(frames, {}, [])
    declared = declared_tables(_uri(source))
    links = [one for one in declared.links if {one.child, one.parent} <= frames.keys()]
    return LinkedFrames(frames, {t: k for t, k in declared.keys.items() if t in frames}, links)


def read_tables_like(
    source: Source, model: LinkedFrames, origin: Source, names: Collection[str]
) -> dict[str, pl.DataFrame]:
    """Read tables in the types of others with the same names, read from ``origin``."""
    places, theirs = tables_of(source), tables_of(origin)
    return {
        name: read_like(places[name], model.frames[name], theirs[name])
        if name in theirs
        else read_table(places[name])
        for name in _chosen(source, list(places), names)
    }


def _chosen(source: Source, there: list[str], names: Collection[str] | None) -> list[str]:
    if not there:
        raise DataError(f"{display_name(source)} holds no table")
    for name in names or ():
        if name not in there:
            hint = nearest_name(name, there)
            raise DataError(f"{display_name(source)} has no table '{name}': {hint}")
    return there if names is None else [name for name in there if name in names]


# A folder of files.


def _files(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")) or by_extension(path) in (None, Format.EXCEL):
            continue
        name = path.name.partition(".")[0]
        if name in found:
            raise DataError(
                f"{folder} holds two files for the table '{name}': leave one of them in it"
            )
        found[name] = path
    return found


def _are_tables(folder: Path) -> bool:
    """Tell whether no two of several files have the same columns.

    NDJSON leaves out what a record does not have: such files say nothing.
    """
    listed = [path for path in folder.iterdir() if not path.name.startswith((".", "_"))]
    files = [path for path in listed if by_extension(path) not in (None, Format.EXCEL)]
    if len(files) < 2 or any(by_extension(path) is Format.NDJSON for path in files):
        return False
    return len({frozenset(_column_names(existing_file(path))) for path in files}) == len(files)


def _column_names(path: Path) -> list[str]:
    if by_extension(path) is Format.CSV:
        return csv_names(path)  # types would take the whole file
    return list(read_schema(path))


# A file that is a database.


def _engine(source: Source) -> str:
    """Name the database that a file is, by its first bytes; empty if it is none."""
    with open(existing_file(source), "rb") as file:
        start = file.read(16)
    if start == _SQLITE:
        return "sqlite"
    return "duckdb" if start[8:12] == _DUCKDB else ""


def _uri(source: Source) -> str:
    if is_sql(source):
        return str(source)
    if not (engine := _engine(source)):
        raise DataError(f"{source} is not a database of SQLite or DuckDB, nor a folder of tables")
    return f"{engine}:///{os.fspath(source)}"
