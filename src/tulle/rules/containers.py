"""Baskets in any container, and the release put back into the same kind.

====================================  =====================================================
given                                 given back
====================================  =====================================================
a list, tuple or series of lists      the same, item order kept; blocked cells as ``"item?"``;
                                      where items were added, all baskets in one order of items
a scipy sparse 0/1 matrix             the same format and type; blocked cells are NaN
a 2-D NumPy 0/1 array                 the same; blocked cells are NaN
a wide frame of 0/1 columns           the same columns; blocked cells are null
a frame of two columns, id and item   the rows that are left; where cells were added or
                                      blocked, the pairs in order of basket and item, marked
a path of a FIMI file or table        :class:`~tulle.transactions.Transactions`
====================================  =====================================================
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import polars as pl

from tulle.errors import DataError, nearest_name
from tulle.transactions import Transactions, read_fimi
from tulle.transactions.fimi import refuse_marks_in_names

_KINDS = (
    "lists of items, a scipy sparse or NumPy 0/1 matrix, a wide 0/1 frame, a frame of two "
    "columns (basket, item), Transactions, or the path of a FIMI file or table"
)


class Source(NamedTuple):
    """Baskets, and how to put a release of them into the container that they came in."""

    baskets: Transactions
    restore: Callable[[Transactions], Any]
    pandas: bool = False


def as_baskets(data: Any) -> Transactions:
    """Baskets from anything that holds baskets."""
    return open_baskets(data).baskets


def open_baskets(data: Any) -> Source:
    """Baskets from anything that holds baskets, and the way back."""
    source = _open(data)
    if len(source.baskets) == 0:
        raise DataError("there is no basket in the data")
    if len(source.baskets.items) == 0:
        raise DataError("all baskets are empty: there is nothing to mine or to hide")
    return source


def shuffled(data: Any, order: Any) -> Any:
    """Baskets in another order; rows of a frame of (basket, item) are mixed as rows.

    An index of pandas would tell the old order: it is numbered anew.
    """
    if isinstance(data, Transactions):
        return data.take(order)
    if isinstance(data, list | tuple):
        return type(data)([data[row] for row in order])
    if hasattr(data, "iloc") and getattr(data, "ndim", 0) == 1:
        return data.iloc[order].reset_index(drop=True)
    if _is_frame(data):
        import narwhals as nw

        frame = nw.from_native(data, eager_only=True)
        rows = order if len(order) == len(frame) else np.argsort(_mixed(len(frame), order))
        return nw.maybe_reset_index(frame[rows.tolist(), :]).to_native()
    return data.tocsr()[order].asformat(data.format) if hasattr(data, "tocsr") else data[order]


def _mixed(length: int, order: Any) -> Any:
    """Sort keys for another number of rows, from the same randomness."""
    return np.random.default_rng(order[:16]).random(length)


def _open(data: Any) -> Source:
    if isinstance(data, Transactions):
        return Source(data, lambda released: released)
    if isinstance(data, str | os.PathLike):
        return Source(_read(data), lambda released: released)
    if hasattr(data, "tocsr") and data.ndim == 2:
        return _open_sparse(data)
    if isinstance(data, np.ndarray) and data.ndim == 2:
        return _open_dense(data)
    if _is_pandas(data) and hasattr(data, "sparse"):
        return _open_sparse_frame(data)
    if _is_frame(data):
        return Source(*open_frame(data), pandas=_is_pandas(data))
    if isinstance(data, Iterable):
        return _open_lists(data)
    raise DataError(f"baskets must be {_KINDS}. Got {type(data).__name__}.")


def _read(path: str | os.PathLike[str]) -> Transactions:
    if not is_table_name(path):
        return read_fimi(path)
    from tulle.io.read import read_table

    return open_frame(read_table(path))[0]


def is_table_name(path: str | os.PathLike[str]) -> bool:
    """Whether a name says table (or database) rather than FIMI file."""
    from tulle.io._formats import format_of

    name = str(path)
    if Path(name.removesuffix(".gz")).suffix in (".dat", ".fimi", ".txt", ".basket", ""):
        return "://" in name
    try:
        format_of(name)
    except DataError:
        return False
    return True


def _open_lists(data: Iterable[Any]) -> Source:
    baskets = list(data)
    found = Transactions.from_lists(baskets)

    def restore(released: Transactions) -> Any:
        new, marked = _marked_lists(released), released.unknown is not None
        if not marked and not released.is_part_of(found):
            # at the end of its basket, or out of its order, an added item would be seen
            filled = [_kind(old)(items) for old, items in zip(baskets, new)]
        else:
            filled = [_refilled(old, items) for old, items in zip(baskets, new)]
        return _as_series(filled, data, marked=marked)

    return Source(found, restore)


def _kind(basket: Any) -> Callable[[list[Any]], Any]:
    return type(basket) if isinstance(basket, list | tuple | set | frozenset) else list


def _as_series(baskets: list[Any], like: Any, *, marked: bool) -> Any:
    """A list of baskets as the tuple, array or series that it came from."""
    if isinstance(like, tuple):
        return tuple(baskets)
    if isinstance(like, np.ndarray):
        out = np.empty(len(baskets), dtype=object)
        out[:] = baskets
        return out
    if _is_pandas(like):
        return type(like)(baskets, index=like.index, name=like.name, dtype=object)
    if type(like).__module__.partition(".")[0] == "polars":
        same = not marked and not hasattr(like.dtype, "size")  # arrays are all of one size
        return type(like)(like.name, list(map(list, baskets)), like.dtype if same else None)
    return baskets


def _refilled(old: Any, new: list[Any]) -> Any:
    left = dict.fromkeys(new)
    known = [item for item in dict.fromkeys(old) if item in left]
    marks = [item for item in new if item not in set(known)]
    return _kind(old)([*known, *marks])


def _marked_lists(released: Transactions) -> list[list[Any]]:
    if released.unknown is None:
        return released.to_lists()
    refuse_marks_in_names(released)
    marks = [[f"{item}?" for item in basket] for basket in released.unknown.to_lists()]
    return [sure + open_ for sure, open_ in zip(released.to_lists(), marks)]


def _open_sparse(data: Any) -> Source:
    from scipy import sparse

    rows = data.tocsr().copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    _refuse_other_values(rows.data)
    array = isinstance(data, sparse.sparray)
    make, form, dtype = (sparse.csr_array if array else sparse.csr_matrix), data.format, data.dtype

    def restore(released: Transactions) -> Any:
        cells = np.ones(len(released.items), dtype=dtype)
        found = make((cells, released.items, released.indptr), shape=data.shape)
        if released.unknown is not None:
            blanks = np.full(len(released.unknown.items), np.nan)
            found = found.astype(float) + make(
                (blanks, released.unknown.items, released.unknown.indptr), shape=data.shape
            )
        return found.asformat(form)

    names = np.arange(data.shape[1])
    return Source(Transactions.from_rows(rows.indptr, rows.indices, names), restore)


def _open_sparse_frame(data: Any) -> Source:
    """A frame of sparse columns of pandas, without a dense copy of it."""
    try:
        source = _open_sparse(data.sparse.to_coo())
    except ValueError:
        raise DataError("sparse columns must leave out what is 0 or False") from None
    names = np.empty(len(data.columns), dtype=object)
    names[:] = list(data.columns)

    def restore(released: Transactions) -> Any:
        cells, make = source.restore(released), type(data).sparse.from_spmatrix
        if released.unknown is not None:
            return make(cells, data.index, data.columns)
        return make(cells.astype(np.uint8), data.index, data.columns).astype(data.dtypes)

    baskets = Transactions(source.baskets.indptr, source.baskets.items, names)
    return Source(baskets, restore, pandas=True)


def _open_dense(data: Any) -> Source:
    rows, items = np.nonzero(data)
    _refuse_other_values(data[rows, items])
    baskets = Transactions.from_pairs(rows, items, len(data), np.arange(data.shape[1]))

    def restore(released: Transactions) -> Any:
        out = np.zeros_like(data, dtype=data.dtype if released.unknown is None else float)
        out[released.row_of, released.items] = 1
        if released.unknown is not None:
            out[released.unknown.row_of, released.unknown.items] = np.nan
        return out

    return Source(baskets, restore)


def _refuse_other_values(values: Any) -> None:
    odd = int(np.count_nonzero(values != 1))
    if odd:
        raise DataError(f"{odd} cells are neither 0 nor 1: a basket holds an item or does not")


def _is_frame(data: Any) -> bool:
    import narwhals as nw

    return nw.dependencies.is_into_dataframe(data)


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas"


# Baskets in data frames: wide (a 0/1 column for each item) or long (one item a row).

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
            "baskets_from_long(frame, basket, item), or --basket and --item"
        )
    if names == labels:
        return baskets, restore
    return baskets, lambda released: _relabelled(restore(released), data.columns)


def open_long(data: Any, basket: str, item: str) -> tuple[Transactions, Restore]:
    """Baskets of a frame with one item a row."""
    return _open_pairs(_opened(data), basket, item)


def baskets_from_long(frame: Any, basket: str, item: str) -> Transactions:
    """Build baskets from a frame with one item per row.

    Parameters
    ----------
    frame : DataFrame (pandas, polars) or pyarrow Table
        The frame.
    basket, item : str
        Its columns of basket numbers (or names) and of items.

    Returns
    -------
    Transactions

    Examples
    --------
    >>> import polars as pl
    >>> from tulle import baskets_from_long
    >>> sold = pl.DataFrame({"till": [1, 1, 2], "what": ["bread", "milk", "milk"]})
    >>> baskets_from_long(sold, "till", "what").to_lists()
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
