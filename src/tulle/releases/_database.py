"""A release as two tables of a database, written in one transaction.

The table ``visits`` has its manifest next to it, in the only row of ``visits_manifest``. The digest
is taken of the records as the database gives them back, in any order: a database has none.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from tulle._files import refuse_same
from tulle.errors import DataError, OutputExists, TulleError
from tulle.io._formats import is_sql
from tulle.io._sql import (
    Address,
    connected,
    get_rows,
    has_table,
    parse,
    put_rows,
    transaction,
    writable,
)
from tulle.keys import SigningKey
from tulle.releases.manifest import Draft, Manifest

_COLUMN = "manifest"


def manifest_table(target: str) -> str:
    return f"{target}_manifest"


def check_target(
    target: str, *, sources: tuple[str | os.PathLike[str], ...] = (), force: bool = False
) -> None:
    """Refuse to write over a source or anything that exists.

    ``force`` replaces a release, and nothing that is not one: a table of the source could hide
    behind a query, a view or another name of the server.
    """
    address, beside = writable(target), writable(manifest_table(target))
    for source in sources:
        _refuse_source(address, source)
    if address.sqlite and not Path(address.place).exists():
        return
    with connected(address) as connection:
        there, known = has_table(address, connection), has_table(beside, connection)
    if there and known and not force:
        raise OutputExists(f"{address.shown} exists already: pass --force to replace it")
    if there != known:
        place = address if there else beside
        raise OutputExists(
            f"{place.shown} exists already and is not a release: choose another name"
        )


@contextmanager
def draft(
    target: str, *, sign_key: SigningKey | None = None, force: bool = False
) -> Iterator[Draft]:
    """Write both tables at the end, or none."""
    address, beside = writable(target), writable(manifest_table(target))
    with tempfile.TemporaryFile() as file:  # it has no name: nothing is left if we are killed
        yield (made := Draft(file))
        file.seek(0)
        with transaction(address) as connection:
            put_rows(_frames(address, file), address, connection, force=force)
            sha256 = digest_of_rows(get_rows(address, connection))
            complete = made.complete(sign_key, table=address.selection, sha256=sha256)
            record = pl.DataFrame({_COLUMN: [complete.to_json()]})
            put_rows([record], beside, connection, force=force)


def has_manifest(target: str) -> bool:
    beside = parse(manifest_table(target))
    if parse(target).is_query or (beside.sqlite and not Path(beside.place).exists()):
        return False
    with connected(beside) as connection:
        return has_table(beside, connection)


def read_manifest(target: str) -> Manifest:
    address, beside = parse(target), parse(manifest_table(target))
    if address.is_query:
        raise DataError(f"{address.shown} is a query, not a release: name the table of a release")
    if not has_manifest(target):
        raise DataError(
            f"{address.shown} has no manifest (table {beside.selection}): it is not a release"
        )
    with connected(beside) as connection:
        found = pl.concat(get_rows(beside, connection))
    text = found[_COLUMN][0] if found.columns == [_COLUMN] and found.height == 1 else ""
    return Manifest.from_json(str(text), beside.shown)


def digest_of(target: str) -> str:
    address = parse(target)
    with connected(address) as connection:
        if not has_table(address, connection):
            raise DataError(f"{address.shown} does not exist, though its manifest does")
        return digest_of_rows(get_rows(address, connection))


def digest_of_rows(frames: Iterable[pl.DataFrame]) -> str:
    """Return the SHA-256 of the column names and of the sorted digests of the records."""
    names: list[str] = []
    records: list[bytes] = []
    for frame in frames:
        names = frame.columns
        lines = frame.select(_exact(series) for series in frame).rows()
        records += (hashlib.sha256(repr(line).encode()).digest() for line in lines)
    records.sort()
    return hashlib.sha256(json.dumps(names).encode() + b"".join(records)).hexdigest()


def _exact(series: pl.Series) -> pl.Series:
    """Return whole numbers and text, which every version of every library writes alike."""
    if series.dtype.is_float():
        numbers = series.cast(pl.Float64)
        bits = pl.Series(series.name, numbers.fill_null(0.0).to_numpy().view(np.int64))
        return bits.zip_with(numbers.is_not_null(), pl.Series([None], dtype=pl.Int64))
    return series if series.dtype == pl.String else series.to_physical()


def _frames(address: Address, file: BinaryIO) -> Iterator[pl.DataFrame]:
    from pyarrow import ArrowInvalid, ipc

    try:
        reader = ipc.open_file(file)
    except ArrowInvalid:
        raise DataError(f"{address.shown}: this release is a file, not a table") from None
    for number in range(reader.num_record_batches):
        frame: Any = pl.from_arrow(reader.get_batch(number))
        yield frame
    if not reader.num_record_batches:
        empty: Any = pl.from_arrow(reader.schema.empty_table())
        yield empty


def _refuse_source(address: Address, source: str | os.PathLike[str]) -> None:
    if not is_sql(source):
        if address.sqlite:
            refuse_same(source, address.place)
        return
    other = parse(str(source))
    if _database(other) == _database(address) and _may_read(other, address.table):
        raise TulleError(
            f"{address.shown} is the source table: choose another name for the release"
        )


def _database(address: Address) -> str:
    """Return one name for a database, as far as names tell."""
    if address.sqlite:
        return os.path.realpath(address.place)
    return address.place.partition("?")[0]


def _may_read(source: Address, table: tuple[str | None, str]) -> bool:
    """Tell whether a source may read a table or the manifest next to it."""
    schema, name = table
    if source.is_query:
        mentioned = rf"\b{re.escape(name)}(?:_manifest)?\b"
        return re.search(mentioned, source.selection, re.IGNORECASE) is not None
    their_schema, their_name = source.table
    elsewhere = None not in (schema, their_schema) and schema != their_schema
    return not elsewhere and their_name.lower() in (name.lower(), f"{name}_manifest".lower())
