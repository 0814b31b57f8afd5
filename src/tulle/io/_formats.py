"""Which format a table has, by its name, and how it may be called in messages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

from tulle.errors import DataError, TulleError, missing_extra, nearest_name

Source = str | os.PathLike[str]
BATCH_ROWS = 50_000  # records that are read or fetched together


class Format(StrEnum):
    CSV = "CSV"
    NDJSON = "NDJSON"
    PARQUET = "Parquet"
    ARROW = "Arrow IPC"
    EXCEL = "Excel"
    SPSS = "SPSS"
    STATA = "Stata"
    SAS = "SAS"
    SQL = "SQL"


_EXTENSIONS = {
    f".{extension}": kind
    for kind, extensions in {
        Format.CSV: "csv tsv",
        Format.NDJSON: "ndjson jsonl",
        Format.PARQUET: "parquet pq",
        Format.ARROW: "arrow feather ipc",
        Format.EXCEL: "xlsx",
        Format.SPSS: "sav zsav",
        Format.STATA: "dta",
        Format.SAS: "xpt sas7bdat",
    }.items()
    for extension in extensions.split()
}
STATISTICS = (Format.SPSS, Format.STATA, Format.SAS)  # read and written whole
_COMPRESSIBLE = (Format.CSV, Format.NDJSON)
_QUERY = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:select|with|values)[\s(\"'*\[/]", re.IGNORECASE | re.DOTALL
)
_NO_NAME = re.compile(r"[\n'\"=<>*;/]")  # in the name of a table; literals stand among these
_MYSQL = re.compile(r"(mysql|mariadb)(\+\w+)?://", re.IGNORECASE)  # as SQLAlchemy names drivers
_SQL = re.compile(rf"(sqlite|postgresql|postgres|duckdb)://|{_MYSQL.pattern}", re.IGNORECASE)


def format_of(source: Source) -> Format:
    """Return the format of a table, from its extension or its URI.

    >>> format_of("people.csv.gz")
    <Format.CSV: 'CSV'>
    >>> format_of("sqlite:///clinic.db#visits")
    <Format.SQL: 'SQL'>
    """
    if is_sql(source):
        return Format.SQL
    parts = parts_of(source)
    if parts:
        return format_of(parts[0])
    found = by_extension(Path(split_sheet(source)[0]))
    if found is None:
        raise DataError(
            f"{display_name(source)}: unknown table format. Use .csv, .csv.gz, .ndjson, "
            ".ndjson.gz, .parquet, .arrow, .xlsx, .sav, .dta or .xpt, or give a URI such as "
            "sqlite:///file.db#table"
        )
    return found


def refuse_read_only(target: Source) -> None:
    name = os.fspath(target).lower()
    other = {"duckdb:": "Parquet, which DuckDB reads", ".sas7bdat": "SAS transport, .xpt"}
    if is_mysql(target):
        other[name[:5]] = "CSV, which LOAD DATA takes"
    for mark, instead in other.items():
        if name.startswith(mark) or name.endswith(mark):
            raise DataError(f"{display_name(target)}: it is read, not written: write {instead}")


def parts_of(source: Source) -> list[Path]:
    """Return the files of a table that is a folder of them, in their order; none of a file.

    Hidden files, and those that begin with ``_`` as Spark's do, hold no records.
    """
    if is_sql(source) or not os.path.isdir(source):
        return []
    found = sorted(path for path in Path(source).iterdir() if not path.name.startswith((".", "_")))
    kinds = {by_extension(path) for path in found}
    if len(kinds) > 1 or not kinds <= {Format.CSV, Format.NDJSON, Format.PARQUET, Format.ARROW}:
        raise DataError(
            f"{source} is a folder of other things than the parts of one table: leave nothing in "
            "it but files of one format, .csv, .ndjson, .parquet or .arrow"
        )
    return found


def by_extension(path: Path) -> Format | None:
    name = Path(path.name.lower())
    if name.suffix != ".gz":
        return _EXTENSIONS.get(name.suffix)
    packed = _EXTENSIONS.get(Path(name.stem).suffix)
    return packed if packed in _COMPRESSIBLE else None


def is_sql(source: Source) -> bool:
    return isinstance(source, str) and _SQL.match(source) is not None


def is_mysql(source: Source) -> bool:
    return _MYSQL.match(os.fspath(source)) is not None


def split_sheet(source: Source) -> tuple[str, str | None]:
    """Split a workbook's source into file and sheet: ``book.xlsx#people``."""
    name = os.fspath(source)
    cut = name.lower().find(".xlsx#")
    return (name, None) if cut < 0 else (name[: cut + 5], name[cut + 6 :])


def is_compressed(source: Source) -> bool:
    return os.fspath(source).lower().endswith(".gz")


def display_name(source: Source) -> str:
    """Return a source as messages, manifests and reports may show it: no password, no query.

    The literals of a query may be cells of the data, the options of a URI may be secrets.

    >>> display_name("postgresql://ann:secret@db.example/clinic?sslpassword=x#visits")
    'postgresql://ann@db.example/clinic#visits'
    >>> display_name("sqlite:///clinic.db#SELECT * FROM visits WHERE name = 'Smith'")
    'sqlite:///clinic.db#query'
    >>> display_name("nats://token@broker.example:4222/VISITS")
    'nats://broker.example:4222/VISITS'
    """
    if not is_sql(source):
        return re.sub(r"^(\w+://).*@", r"\1", os.fspath(source))
    uri, _, selection = str(source).partition("#")
    scheme, _, rest = uri.partition("?")[0].partition("://")
    user, at, place = rest.rpartition("@")
    if not at and ":" in rest and "@" in str(source):
        return f"{scheme}://..."  # a password with an unescaped # or ?: show none of it
    shown = f"{scheme}://{user.partition(':')[0]}{at}{place}"
    if not selection:
        return shown
    is_name = not is_query(selection) and _NO_NAME.search(selection) is None
    return f"{shown}#{selection if is_name else 'query'}"


def is_query(selection: str) -> bool:
    """Tell whether what follows the ``#`` of a database URI is a query rather than a table."""
    return _QUERY.match(selection) is not None


def check_table(source: Source, selection: str, names: list[str]) -> None:
    """Raise unless what follows the ``#`` of a database URI is one of its tables."""
    if selection not in names:
        hint = nearest_name(selection, names)
        wrong = "no such table" if selection else "name a table after a #"
        raise DataError(f"{display_name(source)}: {wrong}: {hint}")


def extra_library(name: str, extra: str, purpose: str) -> Any:
    """Import a library of an extra."""
    try:
        return import_module(name)
    except ImportError:
        raise missing_extra(name.partition(".")[0], extra, purpose) from None


def existing_file(source: Source) -> Path:
    if "://" in os.fspath(source):
        address = display_name(source).partition("?")[0]
        raise DataError(f"{address}: Tulle cannot read URLs. Download the file first")
    path = Path(source)
    if path.is_dir():
        raise DataError(f"{path} is a folder: give the path of a file")
    if not path.exists():
        raise DataError(f"{path}: no such file")
    if not path.is_file():
        raise DataError(
            f"{path} is not a regular file and cannot be read twice: give the path of a file"
        )
    if not os.access(path, os.R_OK):
        raise DataError(f"{path}: no permission to read it")
    return path


@contextmanager
def readable_as(source: Source, what: Format) -> Iterator[None]:
    """Turn whatever a reader raises into an error without a cell of the data in it.

    Readers quote the cells that they stumble over, so their words are not passed on.
    """
    try:
        yield
    except (TulleError, MemoryError, AssertionError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # but a panic of polars, which is not an Exception, is one of its words
        raise DataError(
            f"{display_name(source)}: cannot be read as {what} ({type(error).__name__}): the file "
            "is damaged, truncated or in another format"
        ) from None
