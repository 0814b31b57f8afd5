"""Baskets in data frames: wide (a 0/1 column for each item) or long (one item a row)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from tulle.errors import DataError, nearest_name
from tulle.transactions import Transactions

Restore = Callable[[Transactions], Any]


def open_frame(data: Any) -> tuple[Transactions, Restore]:
    """Baskets of a wide frame of 0/1 columns or of a frame of two columns, basket and item."""
    frame = nw.from_native(data, eager_only=True)
    if not frame.columns or not len(frame):
        raise DataError("there is no basket in the data")
    wide = all(_is_indicator(frame[name]) for name in frame.columns)
    if wide:
        return _open_wide(frame)
    if len(frame.columns) == 2:
        return open_long(data, *frame.columns)
    raise DataError(
        "a frame of baskets has a 0/1 column for each item, or two columns (basket and item); "
        "choose the two with from_long(frame, basket, item)"
    )


def open_long(data: Any, basket: str, item: str) -> tuple[Transactions, Restore]:
    """Baskets of a frame with one item a row."""
    frame = nw.from_native(data, eager_only=True)
    for name in (basket, item):
        if name not in frame.columns:
            raise DataError(f"there is no column '{name}': {nearest_name(name, frame.columns)}")
        missing = frame[name].null_count()
        if missing:
            raise DataError(f"the column '{name}' misses {missing} values: drop those rows")
    rows, labels = _numbered(frame[basket])
    codes, names = _numbered(frame[item])
    baskets = Transactions.from_pairs(rows, codes, len(labels), names)
    restore = _long_restore(frame, (basket, item), rows * len(names) + codes, labels)
    return baskets, restore


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


def _is_indicator(column: nw.Series[Any]) -> bool:
    if column.dtype == nw.Boolean:
        return True
    return column.dtype.is_numeric() and bool(column.drop_nulls().is_in([0, 1]).all())


def _open_wide(frame: nw.DataFrame[Any]) -> tuple[Transactions, Restore]:
    rows, codes = [], []
    for code, name in enumerate(frame.columns):
        column = frame[name]
        missing = column.null_count()
        if missing:
            raise DataError(f"the column '{name}' misses {missing} values: write 0 or 1")
        found = np.flatnonzero(column.to_numpy())
        rows.append(found)
        codes.append(np.full(len(found), code))
    names = np.empty(len(frame.columns), dtype=object)
    names[:] = frame.columns
    baskets = Transactions.from_pairs(
        np.concatenate(rows), np.concatenate(codes), len(frame), names
    )
    return baskets, lambda released: _restore_wide(frame, released)


def _restore_wide(frame: nw.DataFrame[Any], released: Transactions) -> Any:
    columns = []
    for code, name in enumerate(frame.columns):
        cells: Any = np.zeros(len(frame), dtype=bool)
        cells[released.row_of[released.cells(code)]] = True
        old = frame[name]
        if released.unknown is None:
            cells = cells if old.dtype == nw.Boolean else cells.astype(np.int64)
            columns.append(_series(name, cells, old).cast(old.dtype))
            continue
        open_ = np.zeros(len(frame), dtype=bool)
        open_[released.unknown.row_of[released.unknown.cells(code)]] = True
        columns.append(_with_blanks(name, cells, open_, old))
    return frame.with_columns(*columns).to_native()


def _with_blanks(name: str, cells: Any, blank: Any, like: nw.Series[Any]) -> nw.Series[Any]:
    marked = [None if open_ else bool(cell) for cell, open_ in zip(cells, blank)]
    if not like.implementation.is_pandas():
        return _series(name, marked, like, nw.Boolean)
    import pandas as pd

    values = pd.Series(pd.array(marked, dtype="boolean"), like.to_native().index, name=name)
    return nw.from_native(values, series_only=True)


def _series(name: str, values: Any, like: nw.Series[Any], dtype: Any = None) -> nw.Series[Any]:
    return nw.new_series(name, values, dtype, backend=like.implementation)


def _long_restore(
    frame: nw.DataFrame[Any], roles: tuple[str, str], keys: Any, labels: Any
) -> Restore:
    def restore(released: Transactions) -> Any:
        width = len(released.names)
        left = released.row_of * width + released.items
        if released.unknown is None:
            extra = np.setdiff1d(left, keys)
            kept = frame.filter(np.isin(keys, left).tolist())
            return (
                kept if not len(extra) else _appended(kept, roles, extra, released, labels)
            ).to_native()
        blank = released.unknown.row_of * width + released.unknown.items
        open_ = np.isin(keys, blank)
        kept = frame.filter((np.isin(keys, left) | open_).tolist())
        marks = open_[np.isin(keys, left) | open_]
        kept = kept.with_columns(_series("unknown", marks, frame[roles[0]]))
        extra = np.setdiff1d(blank, keys)
        return _appended(kept, roles, extra, released, labels, unknown=True).to_native()

    return restore


def _appended(
    frame: nw.DataFrame[Any],
    roles: tuple[str, str],
    keys: Any,
    released: Transactions,
    labels: Any,
    unknown: bool = False,
) -> nw.DataFrame[Any]:
    expected = 2 + unknown
    if len(frame.columns) > expected:
        raise DataError(
            "this method adds items, and the table has columns besides basket and item: "
            "drop them first"
        )
    rows, codes = np.divmod(keys, len(released.names))
    old_basket, old_item = frame[roles[0]], frame[roles[1]]
    columns = {
        roles[0]: _series(roles[0], labels[rows].tolist(), old_basket, old_basket.dtype),
        roles[1]: _series(roles[1], released.names[codes].tolist(), old_item, old_item.dtype),
    }
    if unknown:
        columns["unknown"] = _series("unknown", np.ones(len(keys), dtype=bool), old_basket)
    extra = nw.from_dict(columns).select(frame.columns)
    return nw.concat([frame, extra])


def _numbered(column: nw.Series[Any]) -> tuple[Any, Any]:
    """Codes by first appearance, and the value of each code."""
    values = pl.Series(column.to_list()) if column.dtype == nw.Object else column.to_polars()
    known = values.unique(maintain_order=True)
    codes = values.replace_strict(known, pl.Series(range(len(known)), dtype=pl.Int64))
    names: Any = known.to_numpy() if known.dtype.is_integer() else np.empty(len(known), object)
    if names.dtype == object:
        names[:] = known.to_list()
    return codes.to_numpy(), names
