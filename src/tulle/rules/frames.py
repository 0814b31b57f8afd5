"""Baskets in data frames: wide (a 0/1 column for each item) or long (one item a row)."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from tulle.errors import DataError, nearest_name
from tulle.transactions import Transactions

Restore = Callable[[Transactions], Any]
_SHOWN = 5  # columns named in an error
_PLAIN = (str, bytes, int, float, Decimal, datetime.date, datetime.time, datetime.timedelta)


def open_frame(data: Any) -> tuple[Transactions, Restore]:
    """Baskets of a wide frame of 0/1 columns or of a frame of two columns, basket and item."""
    frame = _opened(data)
    labels = list(frame.columns)
    if not labels or not len(frame):
        raise DataError("there is no basket in the data")
    names = [str(label) for label in labels]
    if names != labels:  # only pandas has columns with other names than text
        frame = _opened(data.set_axis(names, axis=1))
    others = [name for name in names if not _is_indicator(frame[name])]
    if not others:
        baskets, restore = _open_wide(frame, labels)
    elif len(names) == 2:
        baskets, restore = _open_pairs(frame, *names)
    else:
        raise DataError(
            "baskets are a 0/1 column for each item, or two columns (basket and item). "
            f"{_listing(others)} not only 0 and 1: leave such columns out, or choose the two with "
            "from_long(frame, basket, item), or --basket and --item"
        )
    if names == labels:
        return baskets, restore
    return baskets, lambda released: _relabelled(restore(released), data.columns)


def open_long(data: Any, basket: str, item: str) -> tuple[Transactions, Restore]:
    """Baskets of a frame with one item a row."""
    return _open_pairs(_opened(data), basket, item)


def from_long(frame: Any, basket: str, item: str) -> Transactions:
    """Baskets of a frame with one item a row.

    Parameters
    ----------
    frame
        A pandas, polars or pyarrow table.
    basket, item
        Its columns of basket numbers (or names) and of items.

    Examples
    --------
    >>> import polars as pl
    >>> sold = pl.DataFrame({"till": [1, 1, 2], "what": ["bread", "milk", "milk"]})
    >>> from_long(sold, "till", "what").to_lists()
    [['bread', 'milk'], ['milk']]
    """
    return open_long(frame, basket, item)[0]


def named(codes: Any, names: Any) -> pl.Series:
    """Items as a column of their names; names of several kinds, or of odd ones, as text."""
    if names.dtype != object:
        return pl.Series("items", names[codes])
    plain = names.tolist()
    kinds = {type(name) for name in plain}
    alike = kinds <= {int, float} or (len(kinds) == 1 and isinstance(plain[0], _PLAIN))
    column = pl.Series("items", plain if alike else list(map(str, plain)), strict=False)
    if column.n_unique() < len(plain):
        raise DataError("different items have the same name as text: rename them")
    return column.gather(codes)


def _listing(names: list[str]) -> str:
    """Columns as the subject of a sentence; of many, the first."""
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN])
    if len(names) == 1:
        return f"The column {shown} holds"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"The columns {shown}{more} hold"


def _opened(data: Any) -> nw.DataFrame[Any]:
    try:
        return nw.from_native(data, eager_only=True)
    except nw.exceptions.DuplicateError:
        raise DataError("two columns of the frame have the same name: rename one") from None


def _relabelled(frame: Any, labels: Any) -> Any:
    more = frame.columns[len(labels) :]
    return frame.set_axis([*labels, *more] if len(more) else labels, axis=1)


def _is_indicator(column: nw.Series[Any]) -> bool:
    if column.dtype == nw.Boolean:
        return True
    present = column.drop_nulls()
    return column.dtype.is_numeric() and bool(((present == 0) | (present == 1)).all())


def _open_wide(frame: nw.DataFrame[Any], labels: list[Any]) -> tuple[Transactions, Restore]:
    rows, codes = [], []
    for code, name in enumerate(frame.columns):
        column = frame[name]
        missing = column.null_count()
        if missing:
            raise DataError(f"the column '{name}' misses {missing} values: write 0 or 1")
        found = np.flatnonzero(column.to_numpy())
        rows.append(found)
        codes.append(np.full(len(found), code))
    names = np.empty(len(labels), dtype=object)
    names[:] = labels
    baskets = Transactions.from_pairs(
        np.concatenate(rows), np.concatenate(codes), len(frame), names
    )
    return baskets, lambda released: _restore_wide(frame, released)


def _restore_wide(frame: nw.DataFrame[Any], released: Transactions) -> Any:
    columns = []
    for code, name in enumerate(frame.columns):
        cells = _held(released, code)
        blank = None if released.unknown is None else _held(released.unknown, code)
        columns.append(_column(frame[name], cells, blank))
    return frame.with_columns(*columns).to_native()


def _held(baskets: Transactions, code: int) -> Any:
    cells = np.zeros(len(baskets), dtype=bool)
    cells[baskets.row_of[baskets.cells(code)]] = True
    return cells


def _column(old: nw.Series[Any], cells: Any, blank: Any) -> nw.Series[Any]:
    """A column like an old one; where it has blanks, of truth values."""
    marked: Any = None
    if blank is not None:
        marked = cells.astype(object)
        marked[blank] = None
    if old.implementation.is_pandas():
        import pandas as pd

        native = old.to_native()
        dtype = native.dtype if marked is None else "boolean"
        values = pd.Series(cells if marked is None else marked, native.index, name=old.name)
        return nw.from_native(values.astype(dtype), series_only=True)
    if marked is not None:
        return nw.new_series(old.name, marked.tolist(), nw.Boolean, backend=old.implementation)
    if old.dtype != nw.Boolean:
        cells = cells.astype(np.int64)
    return nw.new_series(old.name, cells, backend=old.implementation).cast(old.dtype)


def _open_pairs(frame: nw.DataFrame[Any], basket: str, item: str) -> tuple[Transactions, Restore]:
    for name in (basket, item):
        if name not in frame.columns:
            raise DataError(f"there is no column '{name}': {nearest_name(name, frame.columns)}")
        missing = frame[name].null_count()
        if missing:
            raise DataError(f"the column '{name}' misses {missing} values: drop those rows")
    rows, n_baskets, _ = _numbered(frame[basket])
    codes, n_items, names = _numbered(frame[item])
    baskets = Transactions.from_pairs(rows, codes, n_baskets, names)
    keys = rows * n_items + codes

    def restore(released: Transactions) -> Any:
        if released.unknown is None and released.is_part_of(baskets):
            left = released.row_of * n_items + released.items
            kept = frame.filter(np.isin(keys, left).tolist())
            return nw.maybe_reset_index(kept).to_native()  # its gaps would tell what went
        return _listed(frame.select(basket, item), rows, codes, released).to_native()

    return baskets, restore


def _listed(
    frame: nw.DataFrame[Any], rows: Any, codes: Any, released: Transactions
) -> nw.DataFrame[Any]:
    """All pairs in order of basket and item: what came into the table does not stand out.

    Labels are taken from the rows of the table where they stand first, in their own types.
    """
    sure = released.row_of * len(released.names) + released.items
    keys, marks = sure, None
    if (open_ := released.unknown) is not None:
        if "unknown" in frame.columns:
            raise DataError("the column of open cells is called 'unknown': rename yours")
        keys = np.union1d(sure, open_.row_of * len(released.names) + open_.items)
        marks = ~np.isin(keys, sure)
    basket, item = np.divmod(keys, len(released.names))
    where = {
        name: np.unique(numbers, return_index=True)[1][wanted].tolist()
        for name, numbers, wanted in zip(frame.columns, (rows, codes), (basket, item))
    }
    columns = [nw.maybe_reset_index(frame[name][places]) for name, places in where.items()]
    if marks is not None:
        columns.append(nw.new_series("unknown", marks, backend=frame.implementation))
    return columns[0].to_frame().with_columns(*columns)


def _numbered(column: nw.Series[Any]) -> tuple[Any, int, Any]:
    """Codes by first appearance, how many there are, and the value of each code."""
    if column.dtype == nw.Object:
        found = Transactions.from_lists([[value] for value in column.to_list()])
        return found.items.astype(np.int64), len(found.names), found.names
    values = column.to_polars()
    known = values.unique(maintain_order=True)
    codes = values.replace_strict(known, pl.Series(range(len(known)), dtype=pl.Int64))
    names: Any = known.to_numpy() if known.dtype.is_integer() else np.empty(len(known), object)
    if names.dtype == object:
        names[:] = known.to_list()
    return codes.to_numpy(), len(known), names
