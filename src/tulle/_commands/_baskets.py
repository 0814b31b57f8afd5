"""Baskets from any file, for the workflows that mine and hide."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import polars as pl

from tulle._types import FilePath
from tulle.errors import ParameterError
from tulle.io._formats import is_compressed
from tulle.io.read import read_table
from tulle.io.write import put_table
from tulle.rules.containers import is_table_name, named, open_baskets, open_frame, open_long
from tulle.transactions import Transactions, write_fimi
from tulle.transactions.baskets import Rows


class Opened(NamedTuple):
    """Baskets of a file; ``restore`` makes a table like the source's, None for FIMI files."""

    baskets: Transactions
    restore: Callable[[Transactions], Any] | None


def open_file(source: FilePath, basket: str | None, item: str | None) -> Opened:
    """Open baskets of a FIMI file, of a wide 0/1 table, or of a table with one item per row."""
    if (basket is None) != (item is None):
        raise ParameterError("--basket and --item name the two columns of a table: give both")
    if not is_table_name(source):
        if basket is not None:
            raise ParameterError("--basket and --item are for tables: FIMI files have no columns")
        return Opened(open_baskets(source).baskets, None)
    if basket is None or item is None:
        baskets, restore = open_frame(read_table(source))
    else:
        baskets, restore = open_long(read_table(source, [basket, item]), basket, item)
    return Opened(open_baskets(baskets).baskets, restore)


def put_baskets(
    released: Transactions, frame: pl.DataFrame | None, file: BinaryIO, name: FilePath
) -> None:
    """Write baskets in the format of the file name: a table, or lines of items."""
    if is_table_name(name):
        put_table(as_long(released) if frame is None else frame, file, name)
    elif is_compressed(name):
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
            write_fimi(_filled(released), cast(BinaryIO, packed))
    else:
        write_fimi(_filled(released), file)


def n_empty(released: Transactions) -> int:
    """Count the empty baskets, which neither FIMI lines nor pairs can express."""
    return int(np.count_nonzero(_sizes(released) == 0))


def _filled(released: Transactions) -> Transactions:
    sizes = _sizes(released)
    return released if sizes.all() else released.take(np.flatnonzero(sizes))


def _sizes(released: Transactions) -> Rows:
    open_ = released.unknown
    return released.lengths if open_ is None else released.lengths + open_.lengths


def as_long(released: Transactions) -> pl.DataFrame:
    """Return baskets as a table with one item per row."""
    frame = _pairs(released, released.names)
    if released.unknown is None:
        return frame
    open_ = released.unknown
    more = _pairs(open_, released.names)
    marked = [frame.with_columns(unknown=False), more.with_columns(unknown=True)]
    return pl.concat(marked).sort("basket", maintain_order=True)


def _pairs(baskets: Transactions, names: Any) -> pl.DataFrame:
    return pl.DataFrame({"basket": baskets.row_of, "item": named(baskets.items, names)})
