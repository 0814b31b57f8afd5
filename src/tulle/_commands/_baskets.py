"""Baskets from any file, for the workflows that mine and hide."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import polars as pl

from tulle._types import FilePath
from tulle.errors import ParameterError, nearest_name
from tulle.io._formats import is_compressed
from tulle.io.read import read_table
from tulle.io.write import put_table
from tulle.rules.containers import (
    is_indicator,
    is_table_name,
    named,
    open_baskets,
    open_frame,
    open_long,
)
from tulle.transactions import Transactions, write_fimi
from tulle.transactions.baskets import Rows


class Opened(NamedTuple):
    """Baskets of a file; ``restore`` makes a table like the source's, None for FIMI files."""

    baskets: Transactions
    restore: Callable[[Transactions], Any] | None


def open_file(
    source: FilePath, basket: str | None, item: str | None, keep: Sequence[str] = ()
) -> Opened:
    """Open baskets of a FIMI file, of a wide 0/1 table, or of a table with one item per row.

    Other columns of a table are left out of a release, except those to ``keep`` ("all": any).
    """
    if (basket is None) != (item is None):
        raise ParameterError("--basket and --item name the two columns of a table: give both")
    if not is_table_name(source):
        if basket is not None:
            raise ParameterError("--basket and --item are for tables: FIMI files have no columns")
        if keep:
            raise ParameterError("is for tables: FIMI files have no columns", subject="--keep")
        return Opened(open_baskets(source).baskets, None)
    if basket is None or item is None:
        table = read_table(source)
        kept = _kept(table.columns, keep, [n for n in table.columns if not is_indicator(table[n])])
        baskets, restore = open_frame(table.drop(kept))
        return Opened(open_baskets(baskets).baskets, _beside(restore, table.select(kept)))
    table = read_table(source, None if keep else [basket, item])
    others = [name for name in table.columns if name not in (basket, item)]
    kept = _kept(table.columns, keep, others)
    wanted = [name for name in table.columns if name in (basket, item, *kept)]
    baskets, restore = open_long(table.select(wanted), basket, item)
    return Opened(open_baskets(baskets).baskets, restore)


def _kept(names: Sequence[str], keep: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the columns to keep, if the table has them and they are not the baskets' own."""
    if list(keep) == ["all"]:
        return list(others)
    for name in keep:
        if name not in names:
            raise ParameterError(
                f"names column '{name}', which is not in the table: {nearest_name(name, names)}",
                subject="--keep",
            )
    return [name for name in others if name in keep]


def _beside(
    restore: Callable[[Transactions], Any], kept: pl.DataFrame
) -> Callable[[Transactions], Any]:
    """Return a way back to a wide table that has some more columns first."""
    if not kept.width:
        return restore
    return lambda released: pl.concat([kept, restore(released)], how="horizontal")


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
