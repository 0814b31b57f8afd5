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

import numpy as np
import polars as pl

from tulle._plurals import counted
from tulle.errors import DataError, nearest_name
from tulle.table._frames import as_record_batch, enter, enter_column
from tulle.table._pandas import keep_index
from tulle.transactions import Transactions, read_fimi
from tulle.transactions.fimi import refuse_marks_in_names

_KINDS = (
    "lists of items, a scipy sparse or NumPy 0/1 matrix, a wide 0/1 frame, a frame of two "
    "columns (basket, item), Transactions, or the path of a FIMI file or table"
)


class BasketSource(NamedTuple):
    """Baskets, and how to put a release of them into the container that they came in."""

    baskets: Transactions
    restore: Callable[[Transactions], Any]
    pandas: bool = False


def as_baskets(data: Any) -> Transactions:
    return open_baskets(data).baskets


def open_baskets(data: Any) -> BasketSource:
    """Return baskets from anything that holds baskets, and the way back."""
    source = _open(data)
    if len(source.baskets) == 0:
        raise DataError("the data contains no baskets")
    if len(source.baskets.items) == 0:
        raise DataError("all baskets are empty: there is nothing to mine or to hide")
    return source


def shuffled(data: Any, order: Any) -> Any:
    """Return baskets in another order; rows of a frame of (basket, item) are mixed as rows.

    A pandas index would show the old order, so it is renumbered.
    """
    if isinstance(data, Transactions):
        return data.take(order)
    if isinstance(data, list | tuple):
        return type(data)([data[row] for row in order])
    if hasattr(data, "iloc") and getattr(data, "ndim", 0) == 1:
        return data.iloc[order].reset_index(drop=True)
    if _is_frame(data):
        whole = len(order) == len(data)
        return _taken(data, order if whole else np.argsort(_mixed(len(data), order)))
    return data.tocsr()[order].asformat(data.format) if hasattr(data, "tocsr") else data[order]


def _mixed(length: int, order: Any) -> Any:
    """Sort keys for another number of rows, from the same randomness."""
    return np.random.default_rng(order[:16]).random(length)


def _open(data: Any) -> BasketSource:
    if isinstance(data, Transactions):
        return BasketSource(data, lambda released: released)
    if isinstance(data, str | os.PathLike):
        return BasketSource(_read(data), lambda released: released)
    if hasattr(data, "tocsr") and data.ndim == 2:
        return _open_sparse(data)
    if isinstance(data, np.ndarray) and data.ndim == 2:
        return _open_dense(data)
    if _is_pandas(data) and hasattr(data, "sparse"):
        return _open_sparse_frame(data)
    if _is_frame(data):
        return BasketSource(*open_frame(data), pandas=_is_pandas(data))
    if isinstance(data, Iterable):
        return _open_lists(data)
    raise DataError(f"baskets must be {_KINDS}. Got {type(data).__name__}.")


def _read(path: str | os.PathLike[str]) -> Transactions:
    if not is_table_name(path):
        return read_fimi(path)
    from tulle.io.read import read_table

    return open_frame(read_table(path))[0]


def is_table_name(path: str | os.PathLike[str]) -> bool:
    from tulle.io._formats import format_of

    name = str(path)
    if Path(name.removesuffix(".gz")).suffix in (".dat", ".fimi", ".txt", ".basket", ""):
        return "://" in name
    try:
        format_of(name)
    except DataError:
        return False
    return True


def _open_lists(data: Iterable[Any]) -> BasketSource:
    baskets = list(data)
    found = Transactions.from_lists(baskets)

    def restore(released: Transactions) -> Any:
        new, marked = released.to_lists(), released.unknown is not None
        if released.unknown is not None:
            refuse_marks_in_names(released)
            marks = ([f"{item}?" for item in basket] for basket in released.unknown.to_lists())
            new = [sure + open_ for sure, open_ in zip(new, marks)]
        if not marked and not released.is_part_of(found):
            # at the end of its basket, or out of its order, an added item would be seen
            filled = [_kind(old)(items) for old, items in zip(baskets, new)]
        else:
            filled = []
            for old, items in zip(baskets, new):
                left = set(items)
                held = dict.fromkeys(item for item in old if item in left)
                filled.append(_kind(old)([*held, *(item for item in items if item not in held)]))
        return _as_series(filled, data, marked=marked)

    return BasketSource(found, restore)


def _kind(basket: Any) -> Callable[[list[Any]], Any]:
    return type(basket) if isinstance(basket, list | tuple | set | frozenset) else list


def _as_series(baskets: list[Any], like: Any, *, marked: bool) -> Any:
    """Return a list of baskets as the tuple, array or series that it came from."""
    if isinstance(like, tuple):
        return tuple(baskets)
    if isinstance(like, np.ndarray):
        out = np.empty(len(baskets), dtype=object)
        out[:] = baskets
        return out
    if _is_pandas(like):
        return type(like)(baskets, index=like.index, name=like.name, dtype=object)
    if _library(like) == "polars":
        same = not marked and not hasattr(like.dtype, "size")  # arrays are all of one size
        return type(like)(like.name, list(map(list, baskets)), like.dtype if same else None)
    return baskets


def _open_sparse(data: Any) -> BasketSource:
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
    return BasketSource(Transactions.from_rows(rows.indptr, rows.indices, names), restore)


def _open_sparse_frame(data: Any) -> BasketSource:
    """Open a pandas frame of sparse columns, without a dense copy of it."""
    try:
        source = _open_sparse(data.sparse.to_coo())
    except ValueError:
        raise DataError("the fill value of sparse columns must be 0 or False") from None
    names = np.empty(len(data.columns), dtype=object)
    names[:] = list(data.columns)

    def restore(released: Transactions) -> Any:
        cells, make = source.restore(released), type(data).sparse.from_spmatrix
        if released.unknown is not None:
            return make(cells, data.index, data.columns)
        return make(cells.astype(np.uint8), data.index, data.columns).astype(data.dtypes)

    baskets = Transactions(source.baskets.indptr, source.baskets.items, names)
    return BasketSource(baskets, restore, pandas=True)


def _open_dense(data: Any) -> BasketSource:
    rows, items = np.nonzero(data)
    _refuse_other_values(data[rows, items])
    baskets = Transactions.from_pairs(rows, items, len(data), np.arange(data.shape[1]))

    def restore(released: Transactions) -> Any:
        out = np.zeros_like(data, dtype=data.dtype if released.unknown is None else float)
        out[released.row_of, released.items] = 1
        if released.unknown is not None:
            out[released.unknown.row_of, released.unknown.items] = np.nan
        return out

    return BasketSource(baskets, restore)


def _refuse_other_values(values: Any) -> None:
    odd = int(np.count_nonzero(values != 1))
    if odd:
        raise DataError(
            f"{odd} cells are neither 0 nor 1: write 1 where a basket holds an item, else 0"
        )


def _is_frame(data: Any) -> bool:
    library, kind = _library(data), type(data).__name__
    if library == "pyarrow":
        return kind in ("Table", "RecordBatch")
    return library in ("pandas", "polars") and kind == "DataFrame"


def _is_pandas(data: Any) -> bool:
    return _library(data) == "pandas"


def _library(data: Any) -> str:
    return type(data).__module__.partition(".")[0]


def _taken(data: Any, rows: Any) -> Any:
    """Return some rows of a frame or a column, with a new index: the old one would show which."""
    if _is_pandas(data):
        return data.iloc[rows].reset_index(drop=True)
    return data.take(rows) if _library(data) == "pyarrow" else data[rows]


# Baskets in data frames: wide (a 0/1 column for each item) or long (one item a row).

Restore = Callable[[Transactions], Any]
_SHOWN = 5  # columns named in an error
_PLAIN = (str, bytes, int, float, Decimal, datetime.date, datetime.time, datetime.timedelta)


def open_frame(data: Any) -> tuple[Transactions, Restore]:
    """Open a wide frame of 0/1 columns, or a frame of two columns, basket and item."""
    columns = _columns(data)
    if not columns or not len(data):
        raise DataError("the data contains no baskets")
    others = [name for name, column in columns.items() if not is_indicator(column)]
    if not others:
        return _open_wide(data)
    if len(columns) == 2:
        return _open_pairs(data, *columns)
    shown = ", ".join(f"'{name}'" for name in others[:_SHOWN])
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    told = f"The column {shown} holds" if len(others) == 1 else f"The columns {shown}{more} hold"
    raise DataError(
        "baskets are a 0/1 column for each item, or two columns (basket and item). "
        f"{told} values other than 0 and 1: drop such columns, or choose the two with --basket "
        "and --item (baskets_from_long in Python); where every row is a basket of attributes, "
        "--attribute all"
    )


def open_long(data: Any, basket: str, item: str) -> tuple[Transactions, Restore]:
    return _open_pairs(data, basket, item)


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
    """Return items as a column of their names; names of mixed or unusual types become text."""
    if names.dtype != object:
        return pl.Series("items", names[codes])
    plain = names.tolist()
    kinds = {type(name) for name in plain}
    alike = kinds <= {int, float} or (len(kinds) == 1 and isinstance(plain[0], _PLAIN))
    column = pl.Series("items", plain if alike else list(map(str, plain)), strict=False)
    if column.n_unique() < len(plain):
        raise DataError("different items have the same name as text: rename them")
    return column.gather(codes)


def _columns(data: Any) -> dict[str, Any]:
    """Return the columns of a frame unchanged, by their names as text."""
    if _is_pandas(data):
        names = [str(label) for label in data.columns]
        columns = [data.iloc[:, place] for place in range(len(names))]
    else:
        names = getattr(data, "column_names", None) or list(data.columns)
        columns = [data.column(name) if hasattr(data, "column") else data[name] for name in names]
    if len(set(names)) < len(names):
        raise DataError("two columns of the frame have the same name: rename one")
    return dict(zip(names, columns))


def is_indicator(column: Any) -> bool:
    """Return whether a column says of each basket whether it holds an item: 0 or 1."""
    try:
        series, _ = enter_column(column)
    except DataError:  # values of several types, or of odd ones
        return False
    present = series.drop_nulls()
    if series.dtype == pl.Boolean:
        return True
    return series.dtype.is_numeric() and bool(((present == 0) | (present == 1)).all())


def _open_wide(data: Any) -> tuple[Transactions, Restore]:
    frame, exit = enter(data)
    rows, codes = [], []
    for code, column in enumerate(frame):
        missing = column.null_count()
        if missing:
            raise DataError(f"the column '{column.name}' has {missing} missing values: use 0 or 1")
        found = np.flatnonzero(column.to_numpy())
        rows.append(found)
        codes.append(np.full(len(found), code))
    labels = list(data.columns) if _is_pandas(data) else frame.columns
    names = np.empty(len(labels), dtype=object)
    names[:] = labels
    baskets = Transactions.from_pairs(
        np.concatenate(rows), np.concatenate(codes), frame.height, names
    )

    def restore(released: Transactions) -> Any:
        columns = [
            _filled(released, code, name, dtype)
            for code, (name, dtype) in enumerate(frame.schema.items())
        ]
        return keep_index(exit.leave(pl.DataFrame(columns)), data)

    return baskets, restore


def _filled(released: Transactions, code: int, name: str, dtype: Any) -> pl.Series:
    """Return a column of a release in its own type; where some cells are blocked, of booleans."""
    column = pl.Series(name, _held(released, code))
    if released.unknown is None:
        return column.cast(pl.Int64).cast(dtype)
    return column.set(pl.Series(_held(released.unknown, code)), None)


def _held(baskets: Transactions, code: int) -> Any:
    cells = np.zeros(len(baskets), dtype=bool)
    cells[baskets.row_of[baskets.cells(code)]] = True
    return cells


def _open_pairs(data: Any, basket: str, item: str) -> tuple[Transactions, Restore]:
    columns = _columns(data)
    for name in (basket, item):
        if name not in columns:
            raise DataError(f"there is no column '{name}': {nearest_name(name, columns)}")
    rows, n_baskets, _ = _numbered(columns[basket], basket)
    codes, n_items, names = _numbered(columns[item], item)
    baskets = Transactions.from_pairs(rows, codes, n_baskets, names)
    keys = rows * n_items + codes

    def restore(released: Transactions) -> Any:
        if released.unknown is None and released.is_part_of(baskets):
            left = released.row_of * n_items + released.items
            return _taken(data, np.flatnonzero(np.isin(keys, left)))
        if len(columns) > 2:
            raise DataError(
                f"{counted(len(columns) - 2, 'other column')} cannot be kept where items are added "
                "or blocked: choose another method, or keep no other column"
            )
        return _listed(data, (basket, item), (rows, codes), released)

    return baskets, restore


def _listed(
    data: Any, pair: tuple[str, str], numbers: tuple[Any, Any], released: Transactions
) -> Any:
    """Return all pairs in order of basket and item, so that added items do not stand out.

    Labels are taken from the rows of the table where they stand first, in their own types.
    """
    sure = released.row_of * len(released.names) + released.items
    keys, marks = sure, None
    if (open_ := released.unknown) is not None:
        if "unknown" in pair:
            raise DataError("the column name 'unknown' is reserved for blocked cells: rename yours")
        keys = np.union1d(sure, open_.row_of * len(released.names) + open_.items)
        marks = ~np.isin(keys, sure)
    firsts = [np.unique(part, return_index=True)[1] for part in numbers]
    places = [first[wanted] for first, wanted in zip(firsts, np.divmod(keys, len(released.names)))]
    columns = _columns(data)
    chosen = {name: _taken(columns[name], where) for name, where in zip(pair, places)}
    if marks is not None:
        chosen["unknown"] = marks
    if not _is_pandas(data):
        return _framed(data, chosen)
    import pandas as pd

    labels = dict(zip(columns, data.columns))
    table = pd.concat([pd.Series(column) for column in chosen.values()], axis=1)
    return table.set_axis([labels.get(name, name) for name in chosen], axis=1)


def _framed(data: Any, columns: dict[str, Any]) -> Any:
    if isinstance(data, pl.DataFrame):
        return pl.DataFrame(columns)
    import pyarrow as pa

    table = pa.table(columns)
    return as_record_batch(table) if isinstance(data, pa.RecordBatch) else table


def _numbered(column: Any, name: str) -> tuple[Any, int, Any]:
    """Return codes by first appearance, how many there are, and the value of each code."""
    try:
        values, _ = enter_column(column)
    except DataError:  # objects of several types
        found = Transactions.from_lists([[value] for value in list(column)])
        return found.items.astype(np.int64), len(found.names), found.names
    missing = values.null_count() + (int(values.is_nan().sum()) if values.dtype.is_float() else 0)
    if missing:
        raise DataError(f"the column '{name}' has {missing} missing values: drop those rows")
    known = values.unique(maintain_order=True)
    places = pl.Series(range(len(known)), dtype=pl.Int64)
    codes = values.replace_strict(known, places).to_numpy()
    names: Any = known.to_numpy() if known.dtype.is_integer() else np.empty(len(known), object)
    if names.dtype == object:
        names[:] = known.to_list()
    return codes, len(known), names
