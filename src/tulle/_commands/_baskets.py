"""Baskets from any file, for the commands that mine and hide."""

from __future__ import annotations

import gzip
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import polars as pl

from tulle._large.facts import person_keys
from tulle._large.machine import Spill
from tulle._types import FilePath
from tulle.errors import DataError, ParameterError, nearest_name
from tulle.io._formats import is_compressed
from tulle.io.read import OpenTable, open_table, read_table
from tulle.io.write import put_batches, put_table
from tulle.rules.containers import (
    is_indicator,
    is_table_name,
    named,
    open_baskets,
    open_frame,
    open_long,
)
from tulle.transactions import Transactions, fimi_blocks, write_fimi


class Opened(NamedTuple):
    """Baskets of a file; ``restore`` makes a table like the source's, None for FIMI files."""

    baskets: Transactions
    restore: Callable[[Transactions], Any] | None


def open_file(
    source: FilePath,
    basket: str | None,
    item: str | None,
    keep: Sequence[str] = (),
    attributes: Sequence[str] = (),
) -> Opened:
    """Open baskets of a FIMI file, of a wide 0/1 table, or of a table with one item per row.

    Other columns of a table are left out of a release, except those to ``keep`` ("all": any). A
    table of ``attributes`` ("all": of any column) has an item ``column=value`` for each cell.
    """
    is_table = _is_table(source, basket, item, attributes)
    if attributes:
        return Opened(open_baskets(cells_of(read_table(source), attributes)).baskets, None)
    if not is_table:
        if keep:
            raise ParameterError("is for tables: FIMI files have no columns", subject="--keep")
        return Opened(open_baskets(source).baskets, None)
    if basket is None or item is None:
        table = read_table(source)
        if table.width == 1 and isinstance(table.dtypes[0], pl.List):
            return Opened(open_baskets(lists_of(table)).baskets, None)
        kept = _kept(table.columns, keep, [n for n in table.columns if not is_indicator(table[n])])
        baskets, restore = open_frame(table.drop(kept))
        beside = table.select(kept)  # first in the release
        return Opened(
            open_baskets(baskets).baskets,
            lambda released: pl.concat([beside, restore(released)], how="horizontal"),
        )
    table = read_table(source, None if keep else [basket, item])
    others = [name for name in table.columns if name not in (basket, item)]
    kept = _kept(table.columns, keep, others)
    wanted = [name for name in table.columns if name in (basket, item, *kept)]
    baskets, restore = open_long(table.select(wanted), basket, item)
    return Opened(open_baskets(baskets).baskets, restore)


def _is_table(
    source: FilePath, basket: str | None, item: str | None, attributes: Sequence[str]
) -> bool:
    """Tell whether a file is a table; refuse options that do not fit it or each other."""
    is_table = is_table_name(source)
    if attributes and (basket is not None or not is_table):
        raise ParameterError(
            "is for a table in which each row is a basket: leave out --basket and --item",
            subject="--attribute",
        )
    if (basket is None) != (item is None):
        raise ParameterError("--basket and --item name the two columns of a table: give both")
    if basket is not None and not is_table:
        raise ParameterError("--basket and --item are for tables: FIMI files have no columns")
    return is_table


def cells_of(table: pl.DataFrame, attributes: Sequence[str]) -> Transactions:
    """Return each row as the basket of its cells, ``column=value``, without missing ones."""
    _refuse_unknown(attributes, table.columns, "--attribute")
    names = table.columns if "all" in attributes else list(attributes)
    rows = table.select(
        pl.concat_str(pl.lit(f"{name}="), pl.col(name).cast(pl.String)).alias(name)
        for name in names
    )
    return lists_of(rows.select(pl.concat_list(names).list.drop_nulls().alias("items")))


def _kept(names: Sequence[str], keep: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the columns to keep, if the table has them and they are not the baskets' own."""
    if list(keep) == ["all"]:
        return list(others)
    _refuse_unknown(keep, names, "--keep")
    return [name for name in others if name in keep]


def _refuse_unknown(asked: Sequence[str], names: Sequence[str], option: str) -> None:
    for name in asked:
        if name != "all" and name not in names:
            raise ParameterError(
                f"names column '{name}', which is not in the table: {nearest_name(name, names)}",
                subject=option,
            )


def put_baskets(
    released: Transactions, frame: pl.DataFrame | None, file: BinaryIO, name: FilePath
) -> None:
    """Write baskets in the format of the file name: a table, or lines of items."""
    if is_table_name(name):
        if frame is None:  # one item a row
            marks = released.unknown
            frames = [
                pl.DataFrame({"basket": part.row_of, "item": named(part.items, released.names)})
                for part in (released, *([] if marks is None else [marks]))
            ]
            if marks is not None:
                frames = [part.with_columns(unknown=pl.lit(n > 0)) for n, part in enumerate(frames)]
            frame = pl.concat(frames).sort("basket", maintain_order=True)
        put_table(frame, file, name)
    elif is_compressed(name):
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
            write_fimi(filled(released), cast(BinaryIO, packed))
    else:
        write_fimi(filled(released), file)


def filled(released: Transactions) -> Transactions:
    """Leave out the empty baskets, which neither FIMI lines nor pairs can express."""
    open_ = released.unknown
    sizes = released.lengths if open_ is None else released.lengths + open_.lengths
    return released if sizes.all() else released.take(np.flatnonzero(sizes))


# Baskets that are not in memory together, block by block.

_BLOCK = 200_000  # baskets
_PAIRS = 4_000_000  # rows of a table with one item per row that make a block
_PAIR = np.dtype([("basket", np.uint64), ("item", np.int32)])
Blocks = Callable[[], Iterator[Transactions]]


@contextmanager
def open_blocks(
    source: FilePath, basket: str | None, item: str | None, attributes: Sequence[str] = ()
) -> Iterator[Blocks]:
    """Open baskets of a file as :func:`open_file` does, to be read several times in blocks."""
    if not _is_table(source, basket, item, attributes):
        yield lambda: fimi_blocks(source, _BLOCK)
        return
    opened = open_table(source)
    if basket is not None and item is not None:
        with _long_blocks(opened, basket, item) as blocks:
            yield blocks
        return
    lists = [name for name, dtype in opened.schema.items() if isinstance(dtype, pl.List)]
    if attributes:
        yield lambda: (cells_of(part, attributes) for part in opened.batches() if part.height)
    elif len(lists) == 1:
        yield lambda: (lists_of(part) for part in opened.batches(lists) if part.height)
    else:
        yield lambda: (open_frame(part)[0] for part in opened.batches() if part.height)


@contextmanager
def _long_blocks(opened: OpenTable, basket: str, item: str) -> Iterator[Blocks]:
    """Sort the rows of a table with one item per row by basket, through a nameless file."""
    for name in (basket, item):
        if name not in opened.schema:
            hint = nearest_name(name, opened.schema)
            raise DataError(f"the table has no column '{name}': {hint}")
    names, rows = pl.Series(dtype=opened.schema[item]), 0
    for part in opened.batches([basket, item]):
        missing = part.null_count().sum_horizontal().item()
        if missing:
            raise DataError(
                f"{missing} rows have no basket or no item: leave them out, or name them"
            )
        rows += part.height
        names = pl.concat([names, part[item].unique()]).unique()
    names = names.sort()
    plain = _plain(names)
    buckets = rows // _PAIRS + 1
    seed = secrets.randbits(63)
    with Spill(_PAIR, buckets, _PAIRS * _PAIR.itemsize) as spill:
        for part in opened.batches([basket, item]):
            pairs = np.empty(part.height, dtype=_PAIR)
            pairs["basket"] = person_keys(part[basket], seed)
            pairs["item"] = _codes(part[item], names)
            spill.add(pairs, (pairs["basket"] % np.uint64(buckets)).astype(np.int64))

        def blocks() -> Iterator[Transactions]:
            for bucket in range(buckets):
                pairs = spill.read(np.array([bucket]))
                owners, place = np.unique(pairs["basket"], return_inverse=True)
                yield Transactions.from_pairs(place, pairs["item"], len(owners), plain)

        yield blocks


def list_blocks(source: FilePath, size: int) -> Iterator[Transactions]:
    """Yield the baskets of a FIMI file of numbers, or of the one column of a table of lists."""
    if not is_table_name(source):
        yield from fimi_blocks(source, size)
        return
    opened = open_table(source)
    if len(opened.schema) != 1:
        raise DataError("--stream reads a table of one column, which holds lists of items")
    for part in opened.batches(rows=size):
        if part.height:
            yield lists_of(part)


def put_blocks(
    blocks: Iterable[Transactions], file: BinaryIO, source: FilePath, name: FilePath
) -> None:
    """Write baskets that come in blocks in the format of their source."""
    if not is_table_name(source):
        for block in blocks:
            write_fimi(block, file)
        return
    ((column, dtype),) = open_table(source).schema.items()

    def lists(released: Transactions) -> pl.DataFrame:
        flat = named(released.items, released.names).cast(dtype.inner)  # type: ignore[attr-defined]
        rows = pl.DataFrame({"row": released.row_of, column: flat})
        found = rows.group_by("row", maintain_order=True).agg(column)
        whole = pl.DataFrame({"row": np.arange(len(released))}).join(found, on="row", how="left")
        return whole.select(pl.col(column).fill_null([]).cast(dtype))

    put_batches(map(lists, blocks), file, name)


def lists_of(frame: pl.DataFrame) -> Transactions:
    """Return the baskets of a column of lists."""
    lists = frame.to_series()
    if not isinstance(lists.dtype, pl.List):
        raise DataError(f"column '{lists.name}' must hold lists of items")
    lengths = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    flat = lists.filter(pl.Series(lengths > 0)).explode()
    if flat.null_count():
        raise DataError("there are missing values among the items: leave them out of baskets")
    names = flat.unique().sort()
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    return Transactions.from_rows(indptr, _codes(flat, names), _plain(names))


def _codes(items: pl.Series, names: pl.Series) -> Any:
    places = pl.int_range(len(names), dtype=pl.Int32, eager=True)
    return items.replace_strict(names, places, return_dtype=pl.Int32).to_numpy()


def _plain(names: pl.Series) -> Any:
    return names.to_numpy() if names.dtype.is_integer() else np.array(names.to_list(), object)
